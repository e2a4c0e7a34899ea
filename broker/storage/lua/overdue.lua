-- Claim requests whose process did not answer them in time, for one sweeper. It gives their open attempts up:
-- from here on nobody may commit these, also where the process that made one wakes up before it is abandoned.
-- KEYS: 1 open_requests
-- ARGV: 1 prefix of record keys (only here is it known which)  2 at most so many
--       3 ms until the next may claim
-- Returns for each request {id, state, attempt, cloud or false, fingerprint, body}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local claimed = {}
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])  -- hook: due
for _, id in ipairs(due) do
  local known = redis.call('HMGET', ARGV[1] .. id, 'state', 'attempt', 'cloud', 'fingerprint', 'body')
  if known[1] then
    redis.call('ZADD', KEYS[1], now + ARGV[3], id)
    if known[1] == 'attempting' then
      redis.call('HSET', ARGV[1] .. id, 'given_up', known[2])
    end
    table.insert(claimed, {id, known[1], known[2], known[3], known[4], known[5]})
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return claimed
