-- Change keys or members, each only if it still is what was read, and write down who did it.
-- KEYS: 1 hash of keys or of members  2 audit
-- ARGV: 1 entry of the audit log, then for each: field, its value as it was read or '', new value or ''
-- Returns 1, or 0 when something was not as it was read; then nothing was written.
local AUDIT_LENGTH = 100000

for at = 2, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') ~= ARGV[at + 1] then return 0 end
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', AUDIT_LENGTH, '*', 'a', ARGV[1])
for at = 2, #ARGV, 3 do
  if ARGV[at + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[at])
  else
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  end
end
return 1
