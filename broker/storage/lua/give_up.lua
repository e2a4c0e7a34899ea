-- Let go of the owner's lease, if it is still ours.
-- KEYS: 1 owner  2 epoch
-- ARGV: 1 token  2 epoch
if redis.call('GET', KEYS[2]) == ARGV[2] and redis.call('GET', KEYS[1]) == ARGV[1] then  -- hook: is_ours
  redis.call('DEL', KEYS[1])
end
return 'ok'
