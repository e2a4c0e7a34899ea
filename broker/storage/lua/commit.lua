-- Everything an owner decided for a group of commands, or nothing of it.
-- KEYS: 1 owner  2 epoch  3 journal  4 events  5 all_events  6 inbox  7 cursor  8 advert  9 running
--       10 overflow, then one lease key for each lease, then one reply stream for each asker;
--       at the end: signature of the advert, seen
-- ARGV: 1 token  2 epoch  3 lease in ms  4 number of the first event in this epoch  5 cursor or ''
--       6 advert or ''  7 channel  8 count of events  9 of leases  10 of askers  11 of overflow entries
--       12 hash of the entry that the events continue, or ''  13 how many events the merged stream keeps,
--       then for each event: JSON, sequence or '', hash; for each lease: id, JSON, '1' if it ended or '0';
--       for each asker: JSON list of replies, signature or ''; for each overflow entry: JSON, signature or '';
--       signature of the advert or '', then for each session of senders that the entries up to the cursor
--       change: name, what was seen of it or '' to forget it
-- Returns 'ok', 'again' (an earlier call wrote it), 'fenced', or an error BROKEN that wrote nothing.
--
-- Redis does not undo what a failed script has written. So every check comes before the first write, and the
-- first write is one that Redis refuses when it is out of memory; after that nothing is refused any more.
-- With signed.lua.
-- With show_leases.lua.
local REPLY_LENGTH, REPLY_TTL_S = 10000, 600

local owner = redis.call('GET', KEYS[1])
local is_past_epoch = redis.call('GET', KEYS[2]) ~= ARGV[2]  -- hook: past_epoch
if is_past_epoch or (owner and owner ~= ARGV[1]) then return 'fenced' end  -- hook: fenced

local function parse(id)
  local high, low = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(high), tonumber(low)
end

local function last(stream)
  local entry = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  if not entry then return 0, 0, '' end
  local high, low = parse(entry[1])
  return high, low, entry[2][4] or ''  -- fields: e, JSON, h, hash; older entries have no h
end

local epoch, first, cursor = tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5]
local events, leases, askers, overflow =
  tonumber(ARGV[8]), tonumber(ARGV[9]), math.min(tonumber(ARGV[10]), #KEYS), tonumber(ARGV[11])
local at = 13

-- Only this owner writes in this epoch, one commit after the other. So a journal that reaches to this
-- commit's last event has all of it. A commit without events is told by its cursor.
local high, low, hash = last(KEYS[3])
if high > epoch then return redis.error_reply('BROKEN the journal is ahead of the epoch') end
if events > 0 then
  if high < epoch then low = 0 end
  if low >= first + events - 1 then  -- hook: written_before
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
    return 'again'
  end
  if first ~= low + 1 then
    return redis.error_reply(string.format('BROKEN event %.0f-%.0f, expected %.0f', epoch, first, low + 1))
  end
  local _, sequence = last(KEYS[4])
  for i = 1, events do
    local claimed = ARGV[at + 3 * i - 1]
    if claimed ~= '' then
      sequence = sequence + 1
      if tonumber(claimed) ~= sequence then
        return redis.error_reply(string.format('BROKEN sequence %s, expected %.0f', claimed, sequence))
      end
    end
  end
end
if cursor ~= '' then
  local new_high, new_low = parse(cursor)
  if not new_high then return redis.error_reply('BROKEN the cursor is not a stream id') end
  local old_high, old_low = parse(redis.call('GET', KEYS[7]) or '0-0')
  if new_high < old_high  -- hook: cursor_goes_back
    or (new_high == old_high and new_low < old_low)
  then
    if events > 0 then return redis.error_reply('BROKEN the cursor goes back') end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
    return 'again'
  end
end
-- What was decided on another history than the one that is written is not written.
if hash ~= ARGV[12] then return redis.error_reply('BROKEN the chain: the last entry is another one') end

for i = 1, events do
  local event, sequence, hash = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at = at + 3
  redis.call('XADD', KEYS[3], string.format('%.0f-%.0f', epoch, first + i - 1), 'e', event, 'h', hash)
  if sequence ~= '' then
    redis.call('XADD', KEYS[4], '0-' .. sequence, 'e', event)
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[13], '*', 'e', event)  -- hook: merge
    redis.call('PUBLISH', ARGV[7], event)
  end
end
at = show_leases(KEYS[9], leases, 10, at)
for i = 1, askers do
  local stream = KEYS[10 + leases + i]
  -- pcall: an asker's name comes from outside, and a stream nobody can read must not stop the cloud.
  redis.pcall('XADD', stream, 'MAXLEN', '~', REPLY_LENGTH, '*', unpack(signed('r', ARGV[at + 1], ARGV[at + 2])))
  at = at + 2
  redis.pcall('EXPIRE', stream, REPLY_TTL_S)
end
for _ = 1, overflow do
  redis.call('XADD', KEYS[10], '*', unpack(signed('o', ARGV[at + 1], ARGV[at + 2])))
  at = at + 2
end
if cursor ~= '' then
  redis.call('SET', KEYS[7], cursor)
  redis.call('XTRIM', KEYS[6], 'MINID', cursor)  -- hook: trim_inbox
  redis.call('XDEL', KEYS[6], cursor)
end
if ARGV[6] ~= '' then
  redis.call('SET', KEYS[8], ARGV[6])
  if ARGV[at + 1] ~= '' then redis.call('SET', KEYS[#KEYS - 1], ARGV[at + 1]) end
end
for i = at + 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[#KEYS], ARGV[i])
  else
    redis.call('HSET', KEYS[#KEYS], ARGV[i], ARGV[i + 1])
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 'ok'
