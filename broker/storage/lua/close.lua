-- Answer requests for good without a lease. An attempt that is still open must be abandoned first.
-- KEYS: 1 open_requests, then one record for each request
-- ARGV: 1 prefix of what members hold (only here is it known whose), then for each request: id, answer
-- Returns for each request what stands: {state, attempt, cloud or false, answer or false}.
local ANSWERED_TTL_S = 604800

local results = {}
for i = 1, #KEYS - 1 do
  local record, id, answer = KEYS[i + 1], ARGV[2 * i], ARGV[2 * i + 1]
  local known = redis.call('HMGET', record, 'state', 'attempt', 'cloud', 'answer', 'member')
  if known[1] == 'open' then  -- hook: is_open
    redis.call('HSET', record, 'state', 'refused', 'answer', answer)
    redis.call('EXPIRE', record, ANSWERED_TTL_S)
    redis.call('ZREM', KEYS[1], id)
    local cores = known[5] and redis.call('HGET', ARGV[1] .. known[5], id)
    if cores then
      redis.call('HDEL', ARGV[1] .. known[5], id)
      redis.call('HINCRBY', ARGV[1] .. known[5], '=cores', -cores)
    end
    results[i] = {'refused', known[2], known[3], answer}
  else
    results[i] = {known[1] or 'unknown', known[2] or 0, known[3], known[4]}
  end
end
return results
