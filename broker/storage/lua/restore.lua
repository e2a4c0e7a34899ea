-- Write entries of a journal again that Redis has lost, and what was written with them; or nothing.
-- KEYS: 1 owner  2 epoch  3 journal  4 events  5 all_events  6 running  7 restored, then one lease key for
--       each lease
-- ARGV: 1 token  2 epoch  3 hash of the newest entry that is there  4 how many events the merged stream keeps
--       5 count of entries  6 of leases, then for each entry: id, JSON, sequence or '', hash;
--       for each lease: id, JSON, '1' if it ended or '0'
-- Returns 'ok', 'again' (an earlier call wrote it), 'fenced', or an error BROKEN that wrote nothing.
-- With show_leases.lua.
local owner = redis.call('GET', KEYS[1])
if redis.call('GET', KEYS[2]) ~= ARGV[2] or (owner and owner ~= ARGV[1]) then return 'fenced' end

local entries, leases, at = tonumber(ARGV[5]), tonumber(ARGV[6]), 6
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if last and entries > 0 then
  if last[1] == ARGV[at + 4 * entries - 3] then return 'again' end
  if (last[2][4] or '') ~= ARGV[3] then return redis.error_reply('BROKEN the journal holds another history') end
end
local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
local sequence = newest and tonumber(string.match(newest[1], '-(%d+)$')) or 0

for _ = 1, entries do
  local id, event, claimed, hash = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  at = at + 4
  if hash == '' then
    redis.call('XADD', KEYS[3], id, 'e', event)
  else
    redis.call('XADD', KEYS[3], id, 'e', event, 'h', hash)
  end
  if claimed ~= '' and tonumber(claimed) > sequence then
    redis.call('XADD', KEYS[4], '0-' .. claimed, 'e', event)
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[4], '*', 'e', event)
  end
end
show_leases(KEYS[6], leases, 7, at)
if entries > 0 then redis.call('SET', KEYS[7], 1) end
return 'ok'
