-- A message as the fields of a stream entry, with its signature where there is one ('': none).
local function signed(name, message, signature)
  if signature == '' then return {name, message} end
  return {'s', signature, name, message}
end
