#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/limits.hpp>

#include <ledger/fixture.hpp>

#include <limits>
#include <string>

using namespace ledger_test;

namespace {

std::string refusal(const ResourceRequest& request) {
  const auto result = validate(request);
  return result ? "" : result.error().message();
}

} // namespace

TEST_CASE("a request is for a fraction of one device or for whole devices") {
  CHECK(refusal(gpus(0.0001)).empty());
  CHECK(refusal(gpus(1)).empty());
  CHECK(refusal(gpus(8)).empty());
  CHECK(refusal(gpus(1.5)) == "gpus is 1.5: ask for a fraction below 1 or for a whole number of devices (1 or 2)");
  auto negative = gpus(0);
  negative.gpus = Share{-1};
  CHECK(refusal(negative) == "gpus is -0.0001: it cannot be negative");
}

TEST_CASE("priorities have bounds, because each has its own place in the broker's decisions") {
  auto request = gpus(0.5);
  for (const int priority : {-100, 100}) {
    request.priority = priority;
    CHECK(refusal(request).empty());
  }
  request.priority = 101;
  CHECK(refusal(request) == "priority is 101: -100 to 100 is allowed");
  GroupRequest group;
  group.bundles = {gpus(0.5)};
  group.priority = -101;
  CHECK(validate(group).error().message() == "priority is -101: -100 to 100 is allowed");
}

TEST_CASE("resources that have a field of their own are refused, saying which") {
  for (const auto& [name, field] : {std::pair{"gpu", "gpus"},
                                    {"cpu", "cpus"},
                                    {"memory", "memory_bytes"},
                                    {"gpus", "gpus"},
                                    {"host_memory_bytes", "host_memory_bytes"}}) {
    ResourceRequest request;
    request.resources[name] = Share::whole(1);
    CHECK(refusal(request)
          == "\"" + std::string{name} + "\" is not a custom resource: use the field " + field + " instead");
  }
}

TEST_CASE("host memory is bytes, up to more than any machine has") {
  ResourceRequest request;
  auto& amount = request.resources[std::string{host_memory_resource}];
  amount = host_memory_amount(limits::host_memory_bytes);
  CHECK(refusal(request).empty());
  amount = host_memory_amount(limits::host_memory_bytes + 1);
  CHECK(refusal(request) == "host_memory_bytes is 1 PiB: at most 1 PiB is allowed");
  amount = Share{-1};
  CHECK(refusal(request) == "resource host_memory is -0.0001: it cannot be negative");
}

TEST_CASE("a request names a bounded number of resources and labels") {
  ResourceRequest request;
  for (std::size_t i = 0; i < limits::resources_per_request; ++i)
    request.resources["r" + std::to_string(i)] = Share::whole(1);
  for (std::size_t i = 0; i < limits::labels_per_request; ++i)
    request.labels["l" + std::to_string(i)] = LabelCondition{LabelCondition::Op::exists, {}};
  CHECK(refusal(request).empty());
  auto more = request;
  more.resources["more"] = Share::whole(1);
  CHECK(refusal(more) == "257 resources are named: at most 256 are allowed");
  more = request;
  more.labels["more"] = LabelCondition{LabelCondition::Op::exists, {}};
  CHECK(refusal(more) == "257 labels are named: at most 256 are allowed");
}

TEST_CASE("negative and absurd amounts and names are refused") {
  ResourceRequest request;
  request.cpus = Share{-10'000};
  CHECK(refusal(request) == "cpus is -1: it cannot be negative");
  request = {};
  request.resources["x"] = Share{-1};
  CHECK(refusal(request) == "resource x is -0.0001: it cannot be negative");
  request = {};
  request.memory_bytes = std::numeric_limits<std::uint64_t>::max();
  CHECK(refusal(request).find("memory_bytes is 18446744073709551615: at most") == 0);
  request = {};
  request.cpus = Share{std::numeric_limits<std::int64_t>::max()};
  CHECK(refusal(request).find("at most 1000000000 is allowed") != std::string::npos);
  request = {};
  request.name = std::string(129, 'x');
  CHECK(refusal(request) == "name has 129 characters: at most 128 are allowed");
  request = {};
  for (const auto* node : {"a\nb", "a\x7f", "a\xc2\x9b[2J"}) {
    request.node = node;
    CHECK(refusal(request) == "node has a control character: use printable ones");
  }
  request.node = "\xc2\xb5"; // a micro sign
  CHECK(refusal(request).empty());
  request = {};
  request.queue_timeout = seconds{-1};
  CHECK(refusal(request).find("queue_timeout is negative") == 0);
  request = {};
  request.bundle = 1;
  CHECK(refusal(request) == "bundle is 1 without a group: name the group too");
}

TEST_CASE("the ledger rejects what the rules refuse, and an id that is in use") {
  Fixture f({node_of("n0", 1)});
  CHECK(f.submit(gpus(1.5)).kind == Kind::rejected);
  CHECK(f.submit(gpus(1.5)).code == Errc::invalid_argument);
  const auto held = f.submit(gpus(1));
  CHECK(f.ledger.submit(held.request, gpus(0.1), f.now).front().code == Errc::already_exists);
  const auto waiting = f.submit(gpus(1));
  CHECK(f.ledger.submit(waiting.request, gpus(0.1), f.now).front().code == Errc::already_exists);
  CHECK(f.ledger.submit(RequestId{}, gpus(0.1), f.now).front().code == Errc::invalid_argument);
}

TEST_CASE("nodes are checked as they register") {
  Fixture f({node_of("n0", 1)});
  CHECK(f.ledger.add_node(node_of("n0", 1), f.now).error().code() == Errc::already_exists);
  CHECK(f.ledger.add_node(node_of("", 1), f.now).error().code() == Errc::invalid_argument);
  auto node = node_of("n1", 1);
  node.resources["cpu"] = Share::whole(1);
  CHECK(f.ledger.add_node(node, f.now).error().message().find("use the field cpus") != std::string::npos);
}
