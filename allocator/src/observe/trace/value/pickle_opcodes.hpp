#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace millrace::trace::pickle {

enum class Opcode : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binstring = 'T',
  short_binstring = 'U',
  binunicode = 'X',
  append = 'a',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  setitems = 'u',
  tuple = 't',
  empty_dict = '}',
  empty_list = ']',
  empty_tuple = ')',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
};

/** @brief What becomes of an opcode that the reader meets. */
enum class Verdict : std::uint8_t {
  taken,
  imports,   ///< would import, call or build something
  persists,  ///< refers to something outside the file
  buffers,   ///< refers to memory outside the file
  text,      ///< belongs to protocols 0 and 1
};

struct OpcodeEntry {
  std::uint8_t code;
  Verdict verdict;
  std::string_view name;
};

/** @brief Every opcode of protocols 0 to 5. */
inline constexpr auto kOpcodes = std::to_array<OpcodeEntry>({
    {'(', Verdict::taken, "MARK"},
    {'.', Verdict::taken, "STOP"},
    {'0', Verdict::taken, "POP"},
    {'1', Verdict::taken, "POP_MARK"},
    {'2', Verdict::taken, "DUP"},
    {'F', Verdict::text, "FLOAT"},
    {'G', Verdict::taken, "BINFLOAT"},
    {'I', Verdict::text, "INT"},
    {'J', Verdict::taken, "BININT"},
    {'K', Verdict::taken, "BININT1"},
    {'L', Verdict::text, "LONG"},
    {'M', Verdict::taken, "BININT2"},
    {'N', Verdict::taken, "NONE"},
    {'P', Verdict::persists, "PERSID"},
    {'Q', Verdict::persists, "BINPERSID"},
    {'R', Verdict::imports, "REDUCE"},
    {'S', Verdict::text, "STRING"},
    {'T', Verdict::taken, "BINSTRING"},
    {'U', Verdict::taken, "SHORT_BINSTRING"},
    {'V', Verdict::text, "UNICODE"},
    {'X', Verdict::taken, "BINUNICODE"},
    {'a', Verdict::taken, "APPEND"},
    {'b', Verdict::imports, "BUILD"},
    {'c', Verdict::imports, "GLOBAL"},
    {'d', Verdict::text, "DICT"},
    {'e', Verdict::taken, "APPENDS"},
    {'g', Verdict::text, "GET"},
    {'h', Verdict::taken, "BINGET"},
    {'i', Verdict::imports, "INST"},
    {'j', Verdict::taken, "LONG_BINGET"},
    {'l', Verdict::text, "LIST"},
    {'o', Verdict::imports, "OBJ"},
    {'p', Verdict::text, "PUT"},
    {'q', Verdict::taken, "BINPUT"},
    {'r', Verdict::taken, "LONG_BINPUT"},
    {'s', Verdict::taken, "SETITEM"},
    {'t', Verdict::taken, "TUPLE"},
    {'u', Verdict::taken, "SETITEMS"},
    {'}', Verdict::taken, "EMPTY_DICT"},
    {']', Verdict::taken, "EMPTY_LIST"},
    {')', Verdict::taken, "EMPTY_TUPLE"},
    {'B', Verdict::taken, "BINBYTES"},
    {'C', Verdict::taken, "SHORT_BINBYTES"},
    {0x80, Verdict::taken, "PROTO"},
    {0x81, Verdict::imports, "NEWOBJ"},
    {0x82, Verdict::imports, "EXT1"},
    {0x83, Verdict::imports, "EXT2"},
    {0x84, Verdict::imports, "EXT4"},
    {0x85, Verdict::taken, "TUPLE1"},
    {0x86, Verdict::taken, "TUPLE2"},
    {0x87, Verdict::taken, "TUPLE3"},
    {0x88, Verdict::taken, "NEWTRUE"},
    {0x89, Verdict::taken, "NEWFALSE"},
    {0x8a, Verdict::taken, "LONG1"},
    {0x8b, Verdict::taken, "LONG4"},
    {0x8c, Verdict::taken, "SHORT_BINUNICODE"},
    {0x8d, Verdict::taken, "BINUNICODE8"},
    {0x8e, Verdict::taken, "BINBYTES8"},
    {0x8f, Verdict::taken, "EMPTY_SET"},
    {0x90, Verdict::taken, "ADDITEMS"},
    {0x91, Verdict::taken, "FROZENSET"},
    {0x92, Verdict::imports, "NEWOBJ_EX"},
    {0x93, Verdict::imports, "STACK_GLOBAL"},
    {0x94, Verdict::taken, "MEMOIZE"},
    {0x95, Verdict::taken, "FRAME"},
    {0x96, Verdict::taken, "BYTEARRAY8"},
    {0x97, Verdict::buffers, "NEXT_BUFFER"},
    {0x98, Verdict::buffers, "READONLY_BUFFER"},
});

}  // namespace millrace::trace::pickle
