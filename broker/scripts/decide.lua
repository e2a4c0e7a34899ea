-- Decide open attempts, once each: commit stores the answer and confirms, abandon releases and opens again.
-- A commit in whose place somebody else may look after the request by now changes nothing: the owner may have
-- given the reservation up.
-- KEYS: 1 open_requests, then one record for each decision
-- ARGV: 1 prefix of inbox keys (not among the KEYS: the record alone says which cloud has the attempt),
--       then for each decision: request id, attempt, 'commit' or 'abandon', answer, command
-- Returns for each decision what stands: {state, attempt, cloud or false, answer or false}.
local ANSWERED_TTL_S = 604800

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local results, commands, order = {}, {}, {}
for i = 1, #KEYS - 1 do
  local record, at = KEYS[i + 1], 1 + 5 * (i - 1)
  local id, attempt, commit = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] == 'commit'
  local known = redis.call('HMGET', record, 'state', 'attempt', 'cloud', 'answer')
  local due = redis.call('ZSCORE', KEYS[1], id)
  local late = commit and due and tonumber(due) <= now
  if known[1] == 'attempting' and known[2] == attempt and not late then
    if commit then
      redis.call('HSET', record, 'state', 'committed', 'answer', ARGV[at + 4])
      redis.call('EXPIRE', record, ANSWERED_TTL_S)
      redis.call('ZREM', KEYS[1], id)
      results[i] = {'committed', attempt, known[3], ARGV[at + 4]}
    else
      redis.call('HSET', record, 'state', 'open')
      results[i] = {'open', attempt, known[3], false}
    end
    local inbox = ARGV[1] .. known[3]
    if not commands[inbox] then
      commands[inbox] = {}
      table.insert(order, inbox)
    end
    table.insert(commands[inbox], ARGV[at + 5])
  else
    results[i] = {known[1] or 'unknown', known[2] or 0, known[3], known[4]}
  end
end
for _, inbox in ipairs(order) do
  redis.call('XADD', inbox, '*', 'c', '[' .. table.concat(commands[inbox], ',') .. ']')
end
return results
