-- Note new requests, each with its first attempt if one is given, and tell what is known of the others.
-- KEYS: 1 open_requests, then the inboxes, then one record for each request
-- ARGV: 1 count of inboxes, then for each request: id, fingerprint, body, token of the call, ms until somebody must
--       look after it, cloud of the first attempt or '', index of its inbox (from 1), command
-- Returns for each request {outcome, answer or false}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local inboxes = tonumber(ARGV[1])

local results, commands = {}, {}
for i = 1, #KEYS - 1 - inboxes do
  local record, at = KEYS[1 + inboxes + i], 1 + 8 * (i - 1)
  local id, fingerprint, token, cloud = ARGV[at + 1], ARGV[at + 2], ARGV[at + 4], ARGV[at + 6]
  local known = redis.call('HMGET', record, 'fingerprint', 'answer', 'state', 'attempt', 'token')
  if not known[1] then
    redis.call('HSET', record, 'fingerprint', fingerprint, 'body', ARGV[at + 3], 'token', token)
    redis.call('ZADD', KEYS[1], now + ARGV[at + 5], id)
    if cloud == '' then
      redis.call('HSET', record, 'state', 'open', 'attempt', 0)
    else
      redis.call('HSET', record, 'state', 'attempting', 'attempt', 1, 'cloud', cloud)
      local inbox = tonumber(ARGV[at + 7])
      commands[inbox] = commands[inbox] or {}
      table.insert(commands[inbox], ARGV[at + 8])
    end
    results[i] = {'new', false}
  elseif known[1] ~= fingerprint then
    results[i] = {'mismatch', false}
  elseif known[2] then
    results[i] = {'answered', known[2]}
  elseif known[5] == token and known[3] .. known[4] == (cloud == '' and 'open0' or 'attempting1') then
    -- The same call again, because it did not hear the answer; its command was sent.
    results[i] = {'new', false}
  else
    results[i] = {'in_flight', false}
  end
end
for inbox = 1, inboxes do
  if commands[inbox] then
    redis.call('XADD', KEYS[1 + inbox], '*', 'c', '[' .. table.concat(commands[inbox], ',') .. ']')
  end
end
return results
