-- Note new requests, each with its first attempt if one is given, and tell what is known of the others.
-- KEYS: 1 open_requests, then the inboxes, then one record for each request, then what members hold, then for
--       each inbox the queue of its doorbells
-- ARGV: 1 count of inboxes  2 count of holds  3 `restored`  4 hash of the clouds  5 prefix of the leases that they show
--       (only here is it known which), then for each inbox: its cloud, entry (the commands of all first
--       attempts there, as JSON), its signature or '', doorbell or '';
--       for each hold: index of what its member holds (from 1), name of the member, cores, the most cores and the
--       most instances it may hold (-1: any), and what is answered when it would hold more: what comes before the
--       largest size that would do, and after;
--       for each request: id, fingerprint, body, token of the call, ms until somebody must look after it, index of
--       the inbox of its first attempt or 0, index of its hold or 0
-- Returns for each request {outcome, answer or false}, or an error where its record, or what its member holds, cannot
-- be read.
--
-- Where Redis was restored from an older copy, the record of a request is gone while its lease runs on: then the
-- request is not new but 'granted', and the answer is the lease, as its cloud shows it.
--
-- An entry is signed as a whole. Where not all attempts that it holds are to be made, none is: their requests
-- are noted as open, and told to be attempted 'later'. So they are where the inbox cannot be written.
-- With signed.lua.
-- With ring.lua.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local OF_INBOX, OF_HOLD, PARTS, ANSWERED_TTL_S, MOST_ATTEMPTS = 4, 7, 7, 604800, 8
local inboxes, holds = math.min(tonumber(ARGV[1]), #KEYS), tonumber(ARGV[2])
local first_hold = 5 + OF_INBOX * inboxes
local first = first_hold + OF_HOLD * holds
local count = (#ARGV - first) / PARTS

-- Takes what a request needs of its member's cap, or tells what is left: 0 cores, or nil where it had room; or an error.
local function hold(at, id)
  local held = KEYS[1 + inboxes + count + ARGV[at + 1]]
  local cores, most, instances = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local known = redis.pcall('HGET', held, '=cores')
  if type(known) == 'table' then return known end
  local sum = tonumber(known or 0)
  if instances >= 0 and redis.call('HLEN', held) - (known and 1 or 0) >= instances then return 0 end
  if most >= 0 and sum + cores > most then return math.max(most - sum, 0) end
  redis.call('HSET', held, id, cores)
  redis.call('HINCRBY', held, '=cores', cores)
end

local clouds
-- The running lease of a request without a record, nil if there is none, and how many clouds show one.
local function granted(id)
  clouds = clouds or redis.call('EXISTS', ARGV[3]) == 1 and redis.call('HKEYS', ARGV[4]) or {}
  local names, lease, count = {}, nil, 0
  for _, cloud in ipairs(clouds) do
    for number = 1, MOST_ATTEMPTS do names[#names + 1] = ARGV[5] .. cloud .. ':' .. id .. '.' .. number end
  end
  for _, shown in ipairs(#names > 0 and redis.call('MGET', unpack(names)) or {}) do
    if shown and string.match(shown, '"state":"(%a+)"') == 'running' then lease, count = shown, count + 1 end
  end
  return lease, count
end

local results, attempts, wanted = {}, {}, {}
for i = 1, count do
  local record, at = KEYS[1 + inboxes + i], first + PARTS * (i - 1)
  local id, fingerprint, body, token = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local inbox, holding = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
  local place = first_hold + OF_HOLD * (holding - 1)
  if inbox > 0 then wanted[inbox] = (wanted[inbox] or 0) + 1 end
  local known = redis.pcall('HMGET', record, 'fingerprint', 'answer', 'state', 'attempt', 'token')
  local lease, claims
  if not known.err and not known[1] then lease, claims = granted(id) end  -- hook: granted
  local left = not known.err and not known[1] and not lease and holding > 0 and hold(place, id)
  local broken = known.err and known or type(left) == 'table' and left
  if broken then
    results[i] = broken
  elseif lease then
    results[i] = {claims == 1 and 'granted' or 'in_flight', claims == 1 and lease}
  elseif left then
    local answer = ARGV[place + 6] .. (left > 0 and string.format('%.0f', left) or 'null') .. ARGV[place + 7]
    redis.call('HSET', record, 'fingerprint', fingerprint, 'body', body, 'token', token,
      'state', 'refused', 'attempt', 0, 'answer', answer)
    redis.call('EXPIRE', record, ANSWERED_TTL_S)
    results[i] = {'answered', answer}
  elseif not known[1] then
    local noted = {'fingerprint', fingerprint, 'body', body, 'token', token}
    if holding > 0 then
      table.insert(noted, 'member')
      table.insert(noted, ARGV[place + 2])
    end
    if inbox == 0 then
      redis.call('HSET', record, 'state', 'open', 'attempt', 0, unpack(noted))
    else
      local cloud = ARGV[OF_INBOX * (inbox - 1) + 6]
      redis.call('HSET', record, 'state', 'attempting', 'attempt', 1, 'cloud', cloud, unpack(noted))
      attempts[inbox] = attempts[inbox] or {}
      table.insert(attempts[inbox], i)
    end
    redis.call('ZADD', KEYS[1], now + ARGV[at + 5], id)
    results[i] = {'new', false}
  elseif known[1] ~= fingerprint then  -- hook: other_request
    results[i] = {'mismatch', false}
  elseif known[2] then  -- hook: answered
    results[i] = {'answered', known[2]}
  elseif known[5] == token and known[3] .. known[4] == (inbox > 0 and 'attempting1' or 'open0') then
    -- The same call again, because it did not hear the answer; its command was sent.
    results[i] = {'new', false}
  elseif known[5] == token and known[3] .. known[4] == 'open0' then
    results[i] = {'later', false}
  else
    results[i] = {'in_flight', false}
  end
end
for inbox = 1, inboxes do
  local made, at = attempts[inbox] or {}, OF_INBOX * (inbox - 1) + 6
  local sent = #made == wanted[inbox]  -- hook: whole_entry
    and redis.pcall('XADD', KEYS[1 + inbox], '*', unpack(signed('c', ARGV[at + 1], ARGV[at + 2])))
  if type(sent) == 'string' then
    ring(KEYS[#KEYS - inboxes + inbox], ARGV[at + 3])
  else
    for _, i in ipairs(made) do
      redis.call('HSET', KEYS[1 + inboxes + i], 'state', 'open', 'attempt', 0)
      redis.call('HDEL', KEYS[1 + inboxes + i], 'cloud')
      results[i] = {'later', false}
    end
  end
end
return results
