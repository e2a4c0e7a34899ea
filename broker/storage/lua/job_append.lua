-- Append entries to the journal of a job, if nobody else has since it was read.
-- KEYS: 1 journal  2 open jobs  3 all jobs
-- ARGV: 1 how many entries the journal must have  2 the job  3 when to look after it, '' if it has ended
--       4 when it was submitted, '' if it is not new  5... entries
-- Returns how many entries it has then; -1, and changes nothing, if it had another number.
local length = redis.call('XLEN', KEYS[1])
if length ~= tonumber(ARGV[1]) then return -1 end
for number = 5, #ARGV do
  length = length + 1
  redis.call('XADD', KEYS[1], '0-' .. length, 'j', ARGV[number])
end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[2], ARGV[2])
else
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
end
if ARGV[4] ~= '' then redis.call('ZADD', KEYS[3], ARGV[4], ARGV[2]) end
return length
