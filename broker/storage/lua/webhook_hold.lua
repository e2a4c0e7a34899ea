-- Become or stay the one process that delivers a webhook's events, and read it as it is now.
-- KEYS: 1 claim  2 webhook
-- ARGV: 1 token  2 how long the claim shall last, in ms
-- Returns nil (another process has it, or there is no such webhook), or {now in ms, field, value, …}.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return nil end
local found = redis.call('HGETALL', KEYS[2])
if #found == 0 then return nil end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local time = redis.call('TIME')
return {string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)), unpack(found)}
