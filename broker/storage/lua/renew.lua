-- Extend the owner's lease; take it again if it ran out and nobody else took it.
-- KEYS: 1 owner  2 epoch
-- ARGV: 1 token  2 epoch  3 lease in ms
-- Returns 'ok', or 'fenced'.
local owner = redis.call('GET', KEYS[1])
local is_past_epoch = redis.call('GET', KEYS[2]) ~= ARGV[2]  -- hook: past_epoch
if is_past_epoch or (owner and owner ~= ARGV[1]) then return 'fenced' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 'ok'
