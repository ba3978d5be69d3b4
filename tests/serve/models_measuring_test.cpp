// What new replicas are asked before they serve.
#include "zero_digits.hpp"

#include <mutex>
#include <string>
#include <utility>

using namespace serve;
using namespace serve::test;

namespace {

/// Which rows replicas were given, since the last look.
struct GivenRows {
  std::mutex mutex;
  std::string text;

  std::string take() {
    const std::lock_guard lock{mutex};
    return std::exchange(text, {});
  }
};

GivenRows& given() {
  static GivenRows rows;
  return rows;
}

class NotesRows : public ZeroDigits {
public:
  using ZeroDigits::ZeroDigits;

  gpuactors::Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    const std::lock_guard lock{given().mutex};
    given().text += std::to_string(batch.rows()) + " ";
    return ZeroDigits::infer(batch);
  }
};

GPUACTORS_ACTOR("test/notes-rows", NotesRows, wire::ReplicaConfig)
    .method(describe_method, &NotesRows::describe)
    .method(infer_method, &NotesRows::infer);

} // namespace

TEST_CASE("each size runs once on each new replica before it is measured, or known from others", "[serve]") {
  Server server;
  must(server.table.add(must(parse_model("digits,actor=test/notes-rows,gpus=0.5,max-batch=5,replicas=1", {}))));
  must(server.table.load("digits", {}));
  CHECK(given().take() == "5 1 1 1 1 2 2 2 2 4 4 4 4 5 5 5 ");
  must(server.table.add(must(parse_model("more,actor=test/notes-rows,gpus=0.5,max-batch=3,replicas=2", {}))));
  must(server.table.load("more", {}));
  CHECK(given().take() == "3 1 1 1 1 2 2 2 2 3 3 3 3 1 2 ");
}
