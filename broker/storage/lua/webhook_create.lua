-- Note a new webhook, unless its holder has one for this URL, or too many.
-- KEYS: 1 webhooks  2 webhook_urls  3 webhook
-- ARGV: 1 id  2 holder  3 digest of holder and URL  4 most a holder may have, then field and value, repeatedly
-- Returns {'ok'}, {'exists', id of the other}, or {'full'}.
local other = redis.call('HGET', KEYS[2], ARGV[3])
if other then return {'exists', other} end
local count = 0
for _, holder in ipairs(redis.call('HVALS', KEYS[1])) do
  if holder == ARGV[2] then count = count + 1 end
end
if count >= tonumber(ARGV[4]) then return {'full'} end
redis.call('HSET', KEYS[3], unpack(ARGV, 5))
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[3], ARGV[1])
return {'ok'}
