-- The version of the contract that the federation speaks. Where there is no federation yet, it begins with ours.
-- KEYS: 1 contract, then what every federation has: clouds, merged events, overflow
-- ARGV: 1 our version  2 the oldest version, which said nothing of itself
-- Returns the version.
local found = redis.call('GET', KEYS[1])
if found then return tonumber(found) end
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0 then return tonumber(ARGV[2]) end
redis.call('SET', KEYS[1], ARGV[1])
return tonumber(ARGV[1])
