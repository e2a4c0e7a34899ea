-- Append a chunk at its place, once.
-- KEYS: 1 history
-- ARGV: 1 index of the chunk  2 chunk
-- Returns the number of chunks before the call; nothing is written unless it equals the index.
local length = redis.call('LLEN', KEYS[1])
if length == tonumber(ARGV[1]) then redis.call('RPUSH', KEYS[1], ARGV[2]) end
return length
