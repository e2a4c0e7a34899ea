-- Shows leases as they are now, and which of them run: a set of ids. Their keys stand behind `key`, and for each
-- three arguments behind `at`: id, JSON, '1' if it ended or '0'. Returns the place of the last argument read.
local function show_leases(running, count, key, at)
  local ENDED_TTL_S = 604800
  for i = 1, count do
    local id, lease, ended = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] == '1'
    at = at + 3
    if ended then
      redis.call('SET', KEYS[key + i], lease, 'EX', ENDED_TTL_S)  -- hook: show_end
      redis.call('SREM', running, id)  -- hook: stop_running
    else
      redis.call('SET', KEYS[key + i], lease)
      redis.call('SADD', running, id)
    end
  end
  return at
end
