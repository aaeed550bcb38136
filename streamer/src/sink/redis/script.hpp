#pragma once

#include <string_view>

namespace millrace::sink {

/**
 * @brief The script that the server runs, atomically, for each part of a batch: it writes rows that
 *        are newer than the server's, and with the last part the commit.
 *
 * KEYS: the stream's key; a key for each row. ARGV: rank; the version that the commit continues,
 * and its own, 16 bytes each; its record, or nothing if parts follow; the position, or nothing;
 * the schema's record if a chain begins, or nothing; "first" or "later" for one of several parts
 * that begin a chain; a record for each row.
 *
 * A commit that begins a chain continues no other commit, so the loss of all rows between two parts
 * would go unnoticed. Therefore the first part stores the version in the field `writing:RANK`, the
 * others check it, and the last one removes it.
 *
 * A value is kept if it is the record of that row (its header says so from byte 16 on) in a version
 * that is at least as new, with a possible epoch. Any other value that is long enough for a version
 * is replaced.
 *
 * Returns 1: done. 0: the server has that commit, or a newer one of its epoch; nothing was done.
 * Text: the rank's newest version, if the commit does not continue it, if it is of a later epoch,
 * or if the first part of the batch is gone; nothing was done.
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
