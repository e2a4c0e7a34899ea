-- Let others deliver a webhook's events at once. Nothing happens if the claim is another's.
-- KEYS: 1 claim
-- ARGV: 1 token
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
