-- Puts a doorbell ('': none) into a queue, unless one lies there: whoever takes that one looks after this.
local function ring(queue, bell)
  if bell ~= '' and redis.call('LLEN', queue) == 0 then redis.call('LPUSH', queue, bell) end
end
