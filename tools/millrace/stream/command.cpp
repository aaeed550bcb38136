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
  add_stream_apply(*stream);
  add_stream_verify(*stream);
  add_stream_status(*stream);
  add_stream_bench(*stream);
}

}  // namespace millrace::cli
