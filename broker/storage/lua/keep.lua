-- Store a snapshot of an owner's state, and take away what is older than it and than what is to be kept.
-- KEYS: 1 owner  2 epoch  3 journal  4 events  5 snapshot
-- ARGV: 1 token  2 epoch  3 snapshot  4 epoch and  5 number of the last entry in it
--       6 entries  7 public events that are kept
-- Returns 'ok', 'fenced', or an error BROKEN that wrote nothing.
local owner = redis.call('GET', KEYS[1])
if redis.call('GET', KEYS[2]) ~= ARGV[2] or (owner and owner ~= ARGV[1]) then return 'fenced' end

local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local high, low = string.match(last and last[1] or '0-0', '^(%d+)-(%d+)$')
-- The snapshot is this owner's: all entries after it are of one epoch, which has no gaps.
local later = high == ARGV[4] and tonumber(low) - tonumber(ARGV[5]) or tonumber(low)
if later < 0 or tonumber(high) < tonumber(ARGV[4]) then
  return redis.error_reply('BROKEN the snapshot is ahead of the journal')
end
redis.call('SET', KEYS[5], ARGV[3])
redis.call('XTRIM', KEYS[3], 'MAXLEN', math.max(tonumber(ARGV[6]), later, 1))
redis.call('XTRIM', KEYS[4], 'MAXLEN', math.max(tonumber(ARGV[7]), later, 1))
return 'ok'
