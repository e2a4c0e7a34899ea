-- Decide open attempts, once each: commit stores the answer and confirms, abandon releases and opens again.
-- A commit in whose place somebody else may look after the request by now, or does, changes nothing: the owner
-- may have given the reservation up. Where its lease runs, it has not: such a commit is 'running'.
-- KEYS: 1 open_requests, then the inboxes, then one record for each decision, none of them twice
-- Of decisions that are 'together', commits all of them, all stand or none does.
-- ARGV: 1 count of inboxes, then for each decision: request id, attempt, 'commit', 'together' (all of the call),
--       'running' or 'abandon', answer, cloud of the attempt, index of its inbox (from 1), seconds for which a committed one is kept
--       at least;
--       then for each inbox: entry (the commands of all decisions there, as JSON), its signature or ''
-- Returns for each decision what stands: {state, attempt, cloud or false, answer or false}; or {'again'}, if
-- nothing was done because others of its inbox do not stand: an entry is signed, and delivered, as a whole; or an
-- error, for a record that cannot be read.
-- {'committed', attempt, cloud, false} is this call's commit: whoever called knows the answer.
-- With signed.lua.
local ANSWERED_TTL_S, PARTS = 604800, 7

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local inboxes = math.min(tonumber(ARGV[1]), #KEYS)

local results, decides, wanted = {}, {}, {}
for i = 1, #KEYS - 1 - inboxes do
  local record, at = KEYS[1 + inboxes + i], 1 + PARTS * (i - 1)
  local id, attempt, how = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local cloud, inbox = ARGV[at + 5], tonumber(ARGV[at + 6])
  local known = redis.pcall('HMGET', record, 'state', 'attempt', 'cloud', 'answer', 'given_up')
  local due = redis.call('ZSCORE', KEYS[1], id)
  local reserved = how == 'commit' or how == 'together'
  local late = reserved and (due and tonumber(due) <= now or known[5] == attempt)  -- hook: late
  wanted[inbox] = (wanted[inbox] or 0) + 1
  if known.err then
    results[i] = known
  elseif known[1] == 'attempting'  -- hook: is_attempting
    and known[2] == attempt and known[3] == cloud  -- hook: same_attempt
    and not late
  then
    decides[inbox] = decides[inbox] or {}
    table.insert(decides[inbox], i)
    results[i] = how == 'together' and {known[1], known[2], known[3], false} or {'again'}
  else
    results[i] = {known[1] or 'unknown', known[2] or 0, known[3], known[4]}
  end
end
local entries = 1 + PARTS * (#KEYS - 1 - inboxes)
local stand = true
if ARGV[4] == 'together' then
  for inbox = 1, inboxes do
    local whole = #(decides[inbox] or {}) == wanted[inbox]  -- hook: all_stand
    stand = stand and whole
    redis.call('XLEN', KEYS[1 + inbox])  -- fails before anything is written if it is no stream
  end
end
for inbox = 1, inboxes do
  if decides[inbox] and stand
    and #decides[inbox] == wanted[inbox]  -- hook: whole_entry
  then
    -- First, so that an inbox that cannot be written leaves the records as they are.
    local entry, signature = ARGV[entries + 2 * inbox - 1], ARGV[entries + 2 * inbox]
    redis.call('XADD', KEYS[1 + inbox], '*', unpack(signed('c', entry, signature)))  -- hook: send
    for _, i in ipairs(decides[inbox]) do
      local record, at = KEYS[1 + inboxes + i], 1 + PARTS * (i - 1)
      local id, attempt, cloud = ARGV[at + 1], ARGV[at + 2], ARGV[at + 5]
      if ARGV[at + 3] ~= 'abandon' then
        redis.call('HSET', record, 'state', 'committed', 'answer', ARGV[at + 4])
        redis.call('EXPIRE', record, math.max(ANSWERED_TTL_S, tonumber(ARGV[at + 7])))
        redis.call('ZREM', KEYS[1], id)
        results[i] = {'committed', attempt, cloud, false}
      else
        redis.call('HSET', record, 'state', 'open')
        results[i] = {'open', attempt, cloud, false}
      end
    end
  end
end
return results
