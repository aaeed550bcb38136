#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// What a page of `--html` shows, independent of where it comes from. Whatever is not known is kept
/// as unknown: the page says so, and never shows it as 0.

namespace millrace::cli {

/// An index, a stream or an event that is not known, or that there is not.
inline constexpr std::uint32_t kUnknown = UINT32_MAX;
/// A size or an address that is not known.
inline constexpr std::uint64_t kUnknownBytes = UINT64_MAX;

/** @brief Index of an event of a run: 0 is the first. */
using PageEvent = std::uint32_t;

/** @brief A stream, with the name that the user knows it by: "main", "copy", "0x7f12a0". */
struct PageStream {
  std::uint32_t device = 0;
  std::string name;
};

/** @brief A line of a stack. Empty or 0: not known. */
struct PageFrame {
  std::string function;
  std::string file;
  std::uint32_t line = 0;
};

/** @brief Why the stream of a block could use memory that another block had before. */
enum class PageReuse : std::uint8_t {
  unknown,
  fresh,        ///< no block had this memory before
  same_stream,  ///< the earlier block was used on the same stream only
  ordered,      ///< the program had ordered the streams before: an event, a synchronization
  completed,    ///< the earlier uses were known to be complete
};

/** @brief One allocation and its life. */
struct PageBlock {
  std::uint64_t address = kUnknownBytes;
  std::uint64_t bytes = 0;                  ///< with rounding
  std::uint64_t requested = kUnknownBytes;  ///< as the program asked
  std::uint32_t device = 0;
  std::uint32_t stream = kUnknown;  ///< index into `streams`
  PageEvent allocated = kUnknown;   ///< kUnknown: before the first event
  PageEvent freed = kUnknown;       ///< kUnknown: not freed within the run
  /// From here on its own stream may use the memory, or another block has it; from `freed` until
  /// then the block waits. The number of events: not within the run. kUnknown: not known.
  PageEvent ready = kUnknown;
  std::uint32_t tag = kUnknown;       ///< index into `tags`
  std::uint32_t stack = kUnknown;     ///< index into `stacks`
  std::uint32_t previous = kUnknown;  ///< block that had the memory before; index into `blocks`
  PageReuse reuse = PageReuse::unknown;
  std::uint32_t site = kUnknown;  ///< who allocated it; index into `sites`
  std::uint32_t pool =
      kUnknown;         ///< of its segment; index into `pools`. kUnknown: the default pool
  bool placed = false;  ///< whether it is in one of `segments`
  std::uint32_t wait = kUnknown;  ///< if ordered, the wait that did it; index into `arrows`
};

/** @brief Memory that an allocator got from the driver, from the time it was mapped until it was
 *         given back. A part that is unmapped by itself is a segment of its own. */
struct PageSegment {
  std::uint64_t address = kUnknownBytes;
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = kUnknown;  ///< its free memory serves this stream only; kUnknown: any
  PageEvent mapped = kUnknown;      ///< kUnknown: before the first event
  PageEvent unmapped = kUnknown;    ///< kUnknown: not within the run
  std::uint32_t pool = kUnknown;    ///< index into `pools`; kUnknown: the default pool
  bool expandable = false;
};

/** @brief Free memory that serves one stream only for a time, where segments are not bound to
 *         streams: that of its last user. */
struct PageFree {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;
  PageEvent from = 0, to = 0;  ///< `to` is not included
};

/** @brief The stream for which free memory of a device is looked at. */
struct PageAsker {
  std::uint32_t device = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = kUnknown;  ///< index into `pools`; kUnknown: the default pool
  bool shares = false;            ///< streams share free memory: see `PageRun::free`
  bool fixed = false;             ///< which memory is stranded is known for this stream only
};

/** @brief The kinds of operations on a stream. */
enum class PageOperationKind : std::uint8_t { kernel, copy, fill, callback, wait, other };

/** @brief Work of a stream, or the time in which it waited. Times as on `PageRun`'s clock. */
struct PageOperation {
  std::uint32_t stream = 0;
  PageOperationKind kind = PageOperationKind::other;
  std::uint32_t name = kUnknown;  ///< index into `names`
  double begin = 0, end = 0;
};

/** @brief An order between two streams: from what was done at one to what came after at another. */
struct PageArrow {
  std::uint32_t from_stream = 0, to_stream = 0;
  double from = 0, to = 0;
  /// It only says why a reuse was safe, and is drawn for that block: the run has its waits besides.
  bool for_reuse = false;
};

/** @brief A moment, or a time with an end, that has a name: an annotation, an error, the peak. */
struct PageMark {
  enum class Kind : std::uint8_t { annotation, out_of_memory, peak, step };
  Kind kind = Kind::annotation;
  std::string text;
  double begin = 0, end = 0;        ///< equal for a moment
  std::uint32_t device = kUnknown;  ///< kUnknown: of all
  PageEvent event = kUnknown;       ///< of a peak: after this event
};

/** @brief A quantity that was sampled, where it cannot be derived from blocks and segments. */
struct PageCounter {
  enum class Kind : std::uint8_t { reserved, active, live, other };
  Kind kind = Kind::other;
  std::string name;
  std::uint32_t device = 0;
  /// Clock and bytes, by clock. A value holds until the next; none: not known from here on.
  std::vector<std::pair<double, std::optional<std::uint64_t>>> points;
};

/** @brief A row of a comparison, drawn as a bar. */
struct PageRow {
  std::string label;
  std::optional<std::uint64_t> bytes;  ///< none: not known, see `note`
  std::string note;                    ///< what it means or costs; why there is no figure
  bool emphasized = false;             ///< the row of the advice
  bool is_less = false;                ///< a change: `bytes` less than before
};

/** @brief Rows that belong together: the ladder, what-if, where the peak went. */
struct PageRows {
  std::string title;
  std::uint32_t device = 0;
  /// Each row has all bytes of those above it, as on a ladder; otherwise rows stand for themselves.
  bool cumulative = false;
  bool changes = false;  ///< rows are differences
  std::vector<PageRow> rows;
};

/** @brief A sentence of the summary. */
struct PageSentence {
  std::string text;
  std::uint32_t device = kUnknown;  ///< kUnknown: of all
};

/**
 * @brief One run, as the page shows it.
 *
 * Its clock counts microseconds if `times_us` has a time for each event, and events otherwise.
 */
struct PageRun {
  std::string name;  ///< a file, or what was run
  std::vector<std::pair<std::string, std::string>> meta;
  std::vector<PageSentence> summary;  ///< the most important first
  std::uint32_t devices = 1;
  PageEvent events = 0;
  std::vector<double> times_us;          ///< of each event, ascending; empty: the run has no times
  std::string event_word = "event";      ///< what its user calls an event: "event", "line"
  std::vector<std::uint32_t> positions;  ///< of each event: its number for its user. kUnknown: the
                                         ///< beginning, before all events. Empty: 0, 1, 2, ...
  std::vector<std::uint32_t> devices_of_events;  ///< empty: all are of device 0

  std::vector<PageStream> streams;
  std::vector<std::string> tags;
  std::vector<std::string> sites;  ///< names of those that allocate, as in the text of a command
  std::vector<std::string> pools;  ///< names of the pools other than the default one
  std::vector<PageAsker> askers;   ///< at most one a device
  std::vector<std::string> names;  ///< of operations
  std::vector<PageFrame> frames;
  std::vector<std::vector<std::uint32_t>> stacks;  ///< indices into `frames`, the innermost first

  bool knows_rounding = true;  ///< whether `PageBlock::bytes` has the rounding of sizes
  std::vector<PageBlock> blocks;
  std::vector<PageSegment> segments;
  std::vector<PageFree> free;  ///< of devices whose streams share free memory
  std::vector<PageOperation> operations;
  std::vector<PageArrow> arrows;
  std::vector<PageMark> marks;
  std::vector<PageCounter> counters;
  std::vector<PageRows> tables;
};

/** @brief Adds sentences to a summary. */
void add_sentences(PageRun& run, const std::vector<std::string>& sentences,
                   std::uint32_t device = kUnknown);

/** @brief A page: one run, or two on one axis. */
struct PageData {
  std::string title;
  std::vector<PageRun> runs;
};

/**
 * @brief Writes a self-contained HTML file that needs no network.
 *
 * Names and stacks may be any bytes: what is not UTF-8 becomes U+FFFD, and nothing in them is taken
 * for markup.
 * @throws std::invalid_argument if an index is out of range, a time is not finite or descends, or
 *         there are no runs or more than two
 * @throws UsageError as `require_page`
 */
void write_page(const PageData& data, std::ostream& out);

/** @brief Before the work begins. @throws UsageError if this program was built without esbuild,
 *         which bundles the page's viewer */
void require_page();

}  // namespace millrace::cli
