-- Hold a call with an Idempotency-Key for longer, or give it up, unless another try has taken it over.
-- KEYS: 1 call
-- ARGV: 1 token of the try that holds it  2 ms from now after which it may be taken over; 0 gives it up
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then redis.call('HSET', KEYS[1], 'until', now + ARGV[2]) end
