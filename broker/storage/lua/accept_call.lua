-- Note a call with an Idempotency-Key, or tell what is known of it.
-- KEYS: 1 call
-- ARGV: 1 fingerprint  2 token of this try  3 ms after which a call without an answer may be taken over
-- Returns {outcome, answer or false}.
local CALL_TTL_S = 604800
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local known = redis.call('HMGET', KEYS[1], 'fingerprint', 'answer', 'token', 'until')
if known[1] and known[1] ~= ARGV[1] then return {'mismatch', false} end
if known[2] then return {'answered', known[2]} end
-- Who began it is gone: its items are keyed by their ids, so running it again gives their stored answers.
if known[1] and known[3] ~= ARGV[2] and now < tonumber(known[4]) then return {'in_flight', false} end
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'token', ARGV[2], 'until', now + ARGV[3])
redis.call('EXPIRE', KEYS[1], CALL_TTL_S)
return {'new', false}
