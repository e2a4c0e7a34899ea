-- Note what requests hold of their member's cap, where that is not known (any more).
-- KEYS: 1 what the member holds
-- ARGV: for each request: id, cores
for at = 1, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) == 1 then
    redis.call('HINCRBY', KEYS[1], '=cores', ARGV[at + 1])
  end
end
