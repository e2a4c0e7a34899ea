-- Note new requests, and tell what is known of the others.
-- KEYS: 1 open_requests, then one record for each request
-- ARGV: for each request: id, fingerprint, body, token of the call, ms until somebody must look after it
-- Returns for each request {outcome, answer or false}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local results = {}
for i = 1, #KEYS - 1 do
  local record, at = KEYS[i + 1], 5 * (i - 1)
  local id, fingerprint, token = ARGV[at + 1], ARGV[at + 2], ARGV[at + 4]
  local known = redis.call('HMGET', record, 'fingerprint', 'answer', 'state', 'attempt', 'token')
  if not known[1] then
    redis.call('HSET', record, 'fingerprint', fingerprint, 'body', ARGV[at + 3], 'token', token,
      'state', 'open', 'attempt', 0)
    redis.call('ZADD', KEYS[1], now + ARGV[at + 5], id)
    results[i] = {'new', false}
  elseif known[1] ~= fingerprint then
    results[i] = {'mismatch', false}
  elseif known[2] then
    results[i] = {'answered', known[2]}
  elseif known[5] == token and known[3] == 'open' and known[4] == '0' then
    -- The same call again, because it did not hear the answer.
    results[i] = {'new', false}
  else
    results[i] = {'in_flight', false}
  end
end
return results
