-- Change a webhook and log a delivery, all or nothing.
-- KEYS: 1 webhook  2 deliveries  3 claim
-- ARGV: 1 token of the claim, '' if none is needed  2 secrets as they must be until now, '' if that does not
--       matter  3 ms from now to the next attempt or ''  4 Delivery as JSON or ''  5 deliveries that are kept,
--       then field and value, repeatedly
-- Returns {'ok', id of the delivery or ''}, {'lost'} (the claim is another's), {'gone'} or {'changed'}.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
if ARGV[1] ~= '' and redis.call('GET', KEYS[3]) ~= ARGV[1] then return {'lost'} end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'secrets') ~= ARGV[2] then return {'changed'} end
if #ARGV > 5 then redis.call('HSET', KEYS[1], unpack(ARGV, 6)) end
if ARGV[3] ~= '' then
  local time = redis.call('TIME')
  local at = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3])
  redis.call('HSET', KEYS[1], 'next_at_ms', string.format('%.0f', at))
end
if ARGV[4] == '' then return {'ok', ''} end
return {'ok', redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[5], '*', 'd', ARGV[4])}
