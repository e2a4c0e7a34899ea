-- The version of the contract that the federation speaks; it begins with ours.
-- KEYS: 1 contract
-- ARGV: 1 our version
-- Returns the version.
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return tonumber(redis.call('GET', KEYS[1]))
