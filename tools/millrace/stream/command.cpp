#include "cli/command.hpp"

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "stream/apply.hpp"
#include "stream/bench.hpp"
#include "stream/status.hpp"
#include "stream/verify.hpp"

namespace millrace::cli {

void add_stream(CLI::App& program) {
  CLI::App* const stream = program.add_subcommand(
      "stream", "Applies, verifies and inspects the rows that `millrace train --stream` sends");
  stream->require_subcommand(1);
  stream->footer(examples_text({{"millrace stream apply --from file:rows --to rocksdb:copy",
                                 "Keeps a copy in RocksDB up to date with a folder, until Ctrl-C."},
                                {"millrace stream status rocksdb:copy",
                                 "Shows the step of a copy, its age and its missing rows."}}));
  add_stream_apply(*stream);
  add_stream_verify(*stream);
  add_stream_status(*stream);
  add_stream_bench(*stream);
}

}  // namespace millrace::cli
