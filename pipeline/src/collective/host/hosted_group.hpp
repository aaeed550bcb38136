#pragma once

#include <memory>
#include <span>
#include <string>

#include "collective/host/transport.hpp"
#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace::collective {

/** @brief A group whose sizes and barriers go through host memory. */
class HostedGroup : public ProcessGroup {
 public:
  void fail(const std::string& why) noexcept override { transport_->fail(why); }
  void check() override { transport_->check(); }

 protected:
  HostedGroup(unsigned rank, unsigned size, std::unique_ptr<Transport> transport)
      : ProcessGroup(rank, size), transport_(std::move(transport)) {}

  [[nodiscard]] Transport& transport() const noexcept { return *transport_; }

 private:
  std::unique_ptr<PendingSizes> do_start_sizes(RankState state,
                                               std::span<const std::int64_t> values) final;
  void do_barrier() final;

  const std::shared_ptr<Transport> transport_;
};

}  // namespace millrace::collective
