-- Become the owner of a cloud: take the lease and open the next epoch, in one step.
-- KEYS: 1 owner  2 epoch  3 journal  4 what the owner speaks
-- ARGV: 1 token  2 lease in ms  3 floor: an epoch known to be in the past
--       4 version of the contract  5 token of a process that is known to be dead, or ''
-- Returns {epoch, the epoch before} or false while another's lease stands.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] and owner ~= ARGV[5] then return false end

local before = tonumber(redis.call('GET', KEYS[2]) or '0')
-- The same process once more: it did not hear the answer, or this is a copy that comes late. Its epoch is open
-- and stays, also where its lease has run out meanwhile: another one would fence it off by its own doing.
local opened = string.format(' %.0f %s', before, ARGV[1])
if before > tonumber(ARGV[3])  -- hook: past_floor
  and string.sub(redis.call('GET', KEYS[4]) or '', -#opened) == opened
then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {before, before - 1}
end
-- The journal refuses ids that are not larger: should the counter be lost, its last epoch is a floor as well.
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if last then before = math.max(before, tonumber(string.match(last[1], '^(%d+)-'))) end

local latest = math.max(before, tonumber(ARGV[3]))
local epoch = latest + 1  -- hook: next_epoch
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], string.format('%.0f', epoch))
redis.call('SET', KEYS[4], string.format('%s %.0f %s', ARGV[4], epoch, ARGV[1]))
return {epoch, before}
