#pragma once

#include <exception>

#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace {

/**
 * @brief Does this rank's part of what all ranks do. If it throws, the group fails with its
 *        message, so that the other ranks do not wait for this one.
 */
template <typename Part>
auto fail_group_on_error(ProcessGroup& group, Part&& part) {
  try {
    return part();
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::exception& error) {
    group.fail(error.what());
    throw;
  }
}

}  // namespace millrace
