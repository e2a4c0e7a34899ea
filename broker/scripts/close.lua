-- Answer requests for good without a lease. An attempt that is still open must be abandoned first.
-- KEYS: 1 open_requests, then one record for each request
-- ARGV: for each request: id, answer
-- Returns for each request what stands: {state, attempt, cloud or false, answer or false}.
local ANSWERED_TTL_S = 604800

local results = {}
for i = 1, #KEYS - 1 do
  local record, id, answer = KEYS[i + 1], ARGV[2 * i - 1], ARGV[2 * i]
  local known = redis.call('HMGET', record, 'state', 'attempt', 'cloud', 'answer')
  if known[1] == 'open' then
    redis.call('HSET', record, 'state', 'refused', 'answer', answer)
    redis.call('EXPIRE', record, ANSWERED_TTL_S)
    redis.call('ZREM', KEYS[1], id)
    results[i] = {'refused', known[2], known[3], answer}
  else
    results[i] = {known[1] or 'unknown', known[2] or 0, known[3], known[4]}
  end
end
return results
