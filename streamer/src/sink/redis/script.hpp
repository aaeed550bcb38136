#pragma once

#include <string_view>

namespace millrace::sink {

/**
 * @brief What runs on the server for each part of a batch, alone: rows that are newer than those
 *        there, and of the last part the commit.
 *
 * KEYS: the stream's key; a key for each row. ARGV: rank; the version that the commit goes after,
 * and its own, 16 bytes each; its record, or nothing if there is more to come; the position, or
 * nothing; the schema's record where a chain begins, or nothing; "first" or "later" for parts of
 * several that begin a chain; a record for each row.
 *
 * A commit that begins a chain goes after nothing, so that a server that loses all rows between two
 * parts would not be noticed: the first part leaves the version in the field `writing:RANK`, the
 * others look for it, and the last one takes it away.
 *
 * A value is left as it is if it is the record of that row (its header says so from byte 16 on) in
 * a version as new, of an epoch that can be; anything else that is long enough for a version is
 * replaced.
 *
 * 1: done. 0: that commit is there, or a newer one of its epoch; nothing was done. Text: the rank's
 * newest version, which the commit does not go after, or which is of a later epoch, or the first
 * part of the batch is gone; nothing was done.
 */
inline constexpr std::string_view kWriteScript = R"lua(
local none = string.rep('\0', 16)
local function newer(a, b)  -- < and > of strings would go by the server's locale
  for i = 1, 16 do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return false
end
local stream, field = KEYS[1], 'mark:' .. ARGV[1]
local after, version, mark, position, schema = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local part, writing = ARGV[7], 'writing:' .. ARGV[1]

local there = redis.call('HGET', stream, field) or none
if #there < 16 then return redis.error_reply('WRONGTYPE ' .. stream .. ' holds no mark') end
there = string.sub(there, 1, 16)
if not newer(version, there) then
  return string.sub(there, 1, 8) == string.sub(version, 1, 8) and 0 or there
end
if after ~= none and after ~= there then return there end
if part == 'first' then
  redis.call('HSET', stream, writing, version)
elseif part == 'later' and redis.call('HGET', stream, writing) ~= version then
  return there
end

for i = 2, #KEYS do
  local record = ARGV[i + 6]
  local old = redis.call('GETRANGE', KEYS[i], 0, 47)
  local row = #old == 48 and string.byte(old) < 128 and
              string.sub(old, 17) == string.sub(record, 17, 48)
  if #old > 0 and #old < 16 then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' holds no row')
  elseif not row or newer(record, old) then
    redis.call('SET', KEYS[i], record)
  end
end
if mark ~= '' then
  redis.call('HSET', stream, field, mark)
  if part == 'later' then redis.call('HDEL', stream, writing) end
  if position ~= '' then redis.call('HSET', stream, 'position', position) end
  if schema ~= '' then redis.call('HSETNX', stream, 'schema', schema) end
end
return 1
)lua";

}  // namespace millrace::sink
