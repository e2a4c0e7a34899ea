-- Write attempts to their records and the commands to the clouds' inboxes.
-- KEYS: 1 open_requests, then the inboxes, then one record for each attempt
-- ARGV: 1 count of inboxes, then for each attempt: request id, number, cloud, index of its inbox (from 1),
--       command, ms until somebody must look after it
-- Returns for each attempt what stands: {state, attempt, cloud or false, answer or false}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local inboxes = tonumber(ARGV[1])

local results, commands = {}, {}
for i = 1, #KEYS - 1 - inboxes do
  local record, at = KEYS[1 + inboxes + i], 1 + 6 * (i - 1)
  local id, number, cloud, inbox = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  local known = redis.call('HMGET', record, 'state', 'attempt', 'cloud', 'answer')
  -- Numbers only grow: an attempt that was abandoned cannot come back, nor be one of two at once.
  if known[1] == 'open' and tonumber(number) > tonumber(known[2]) then
    redis.call('HSET', record, 'state', 'attempting', 'attempt', number, 'cloud', cloud)
    redis.call('ZADD', KEYS[1], now + ARGV[at + 6], id)
    commands[inbox] = commands[inbox] or {}
    table.insert(commands[inbox], ARGV[at + 5])
    results[i] = {'attempting', number, cloud, false}
  else
    results[i] = {known[1] or 'unknown', known[2] or 0, known[3], known[4]}
  end
end
for inbox = 1, inboxes do
  if commands[inbox] then
    redis.call('XADD', KEYS[1 + inbox], '*', 'c', '[' .. table.concat(commands[inbox], ',') .. ']')
  end
end
return results
