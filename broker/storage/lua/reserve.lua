-- Write attempts to their records and the commands to the clouds' inboxes.
-- KEYS: 1 open_requests, then the inboxes, then one record for each attempt, none of them twice, then for each
--       inbox the queue of its doorbells
-- ARGV: 1 count of inboxes, then for each attempt: request id, number, cloud, index of its inbox (from 1),
--       ms until somebody must look after it;
--       then for each inbox: entry (the commands of all attempts there, as JSON), its signature or '', doorbell
--       or ''
-- Returns for each attempt what stands: {state, attempt, cloud or false, answer or false}; or {'again'}, if
-- nothing was done because others of its inbox cannot be made: an entry is signed, and delivered, as a whole; or an
-- error, for a record that cannot be read.
-- With signed.lua.
-- With ring.lua.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local inboxes = math.min(tonumber(ARGV[1]), #KEYS)

local results, makes, wanted = {}, {}, {}
for i = 1, #KEYS - 1 - 2 * inboxes do
  local record, at = KEYS[1 + inboxes + i], 1 + 5 * (i - 1)
  local number, inbox = ARGV[at + 2], tonumber(ARGV[at + 4])
  local known = redis.pcall('HMGET', record, 'state', 'attempt', 'cloud', 'answer')
  wanted[inbox] = (wanted[inbox] or 0) + 1
  -- Numbers only grow: an attempt that was abandoned cannot come back, nor be one of two at once.
  if known.err then
    results[i] = known
  elseif known[1] == 'open'  -- hook: is_open
    and tonumber(number) > tonumber(known[2])  -- hook: higher_number
  then
    makes[inbox] = makes[inbox] or {}
    table.insert(makes[inbox], i)
    results[i] = {'again'}
  else
    results[i] = {known[1] or 'unknown', known[2] or 0, known[3], known[4]}
  end
end
local entries = 1 + 5 * (#KEYS - 1 - 2 * inboxes)
for inbox = 1, inboxes do
  if makes[inbox]
    and #makes[inbox] == wanted[inbox]  -- hook: whole_entry
  then
    -- First, so that an inbox that cannot be written leaves the records as they are.
    local entry, signature = ARGV[entries + 3 * inbox - 2], ARGV[entries + 3 * inbox - 1]
    redis.call('XADD', KEYS[1 + inbox], '*', unpack(signed('c', entry, signature)))
    for _, i in ipairs(makes[inbox]) do
      local record, at = KEYS[1 + inboxes + i], 1 + 5 * (i - 1)
      local id, number, cloud = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      redis.call('HSET', record, 'state', 'attempting', 'attempt', number, 'cloud', cloud)
      redis.call('ZADD', KEYS[1], now + ARGV[at + 5], id)
      results[i] = {'attempting', number, cloud, false}
    end
    ring(KEYS[#KEYS - inboxes + inbox], ARGV[entries + 3 * inbox])
  end
end
return results
