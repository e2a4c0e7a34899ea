-- Store the answer of a call, once.
-- KEYS: 1 call
-- ARGV: 1 answer
-- Returns the answer that stands, or false if there is no such call.
local CALL_TTL_S = 604800
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
if redis.call('HSETNX', KEYS[1], 'answer', ARGV[1]) == 1 then redis.call('EXPIRE', KEYS[1], CALL_TTL_S) end
return redis.call('HGET', KEYS[1], 'answer')
