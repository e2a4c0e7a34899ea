-- Give back what requests hold of their member's cap; those that hold nothing (any more) are passed over.
-- KEYS: 1 what the member holds
-- ARGV: ids of requests
-- Returns how many cores came back.
local cores = 0
for _, id in ipairs(ARGV) do
  local held = redis.call('HGET', KEYS[1], id)
  if held then
    redis.call('HDEL', KEYS[1], id)
    cores = cores + held
  end
end
if cores > 0 then redis.call('HINCRBY', KEYS[1], '=cores', -cores) end
return cores
