#include "ship/pending_recaptures.hpp"

#include "test/support/catch.hpp"

using millrace::ship::PendingRecaptures;

TEST_CASE("a recapture is missing until a shipment with its ticket is delivered") {
  PendingRecaptures pending;
  CHECK(pending.missing_now() == 0);
  pending.add(3, 10);
  pending.add(5, 7);
  CHECK(pending.missing_now() == 17);
  CHECK(pending.drop_included(2) == 17);
  CHECK(pending.drop_included(3) == 7);
  pending.delivered(3, 4);  // its commit counts four rows as missing
  CHECK(pending.missing_now() == 11);
  CHECK(pending.drop_included(5) == 0);
  pending.delivered(5, 0);
  CHECK(pending.missing_now() == 0);
}

TEST_CASE("a recapture without rows of this rank is not missing") {
  PendingRecaptures pending;
  pending.add(0, 10);
  CHECK(pending.missing_now() == 0);
}
