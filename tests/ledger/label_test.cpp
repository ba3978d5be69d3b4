// Conditions on labels, and nodes that are only a wish.
#include <ledger/fixture.hpp>

namespace {

using namespace ledger_test;
using Op = LabelCondition::Op;

NodeSpec labelled(const std::string& name, const char* zone) {
  auto node = node_of(name, 1);
  if (zone != nullptr)
    node.labels["zone"] = zone;
  return node;
}

ResourceRequest where(LabelCondition zone) {
  auto request = gpus(0.1);
  request.labels["zone"] = std::move(zone);
  return request;
}

} // namespace

TEST_CASE("a label can be asked to have one of several values, none of them, any or none at all") {
  Fixture f({labelled("a", "a"), labelled("b", "b"), labelled("none", nullptr)});
  CHECK(place(f.submit(where("b"))) == "b:0");
  CHECK(place(f.submit(where({Op::in, {"x", "b"}}))) == "b:0");
  CHECK(place(f.submit(where({Op::not_in, {"a", "b"}}))) == "none:0");
  CHECK(place(f.submit(where(Op::absent))) == "none:0");
  // Packed beside what is there.
  CHECK(place(f.submit(where(Op::exists))) == "b:0");
  CHECK(place(f.submit(where({Op::not_in, {"b"}}))) == "none:0");
}

TEST_CASE("a label that no node has says what the best node has and what was asked") {
  Fixture f({labelled("n0", "b")});
  CHECK(place(f.submit(where({Op::in, {"a", "c"}})))
        == "infeasible: no node has the labels: on node n0 label zone is \"b\", asked: in [a, c]");
  CHECK(place(f.submit(where({Op::not_in, {"b"}})))
        == "infeasible: no node has the labels: on node n0 label zone is \"b\", asked: not in [b]");
  CHECK(place(f.submit(where(Op::absent)))
        == "infeasible: no node has the labels: on node n0 label zone is \"b\", asked: no such label");
  auto request = gpus(0.1);
  request.labels["rack"] = Op::exists;
  CHECK(place(f.submit(request))
        == "infeasible: no node has the labels: on node n0 there is no label rack, asked: any value");
}

TEST_CASE("a condition that could never hold or says too much is refused") {
  CHECK(validate(where(LabelCondition{Op::in})).error().message() == "label zone: name at least one value");
  CHECK(validate(where({Op::exists, {"a"}})).error().message()
        == "label zone: whether it is there is asked, so no value can be named");
  std::vector<std::string> many(1025, "a");
  CHECK(validate(where({Op::in, many})).error().message() == "label zone has 1025 values: at most 1024 are allowed");
}

TEST_CASE("a node that is a wish is taken while it has room and never waited for") {
  Fixture f({node_of("a", 1), node_of("b", 1)});
  auto request = gpus(0.6);
  request.node = "b";
  request.node_is_soft = true;
  CHECK(place(f.submit(request)) == "b:0");
  CHECK(place(f.submit(request)) == "a:0");
  request.node = "elsewhere";
  request.gpus = Share{1000};
  CHECK(place(f.submit(request)) == "a:0");
  request.node = "b";
  CHECK(place(f.submit(request)) == "b:0");
  request.gpus = Share::whole(2);
  CHECK(place(f.submit(request)) == "infeasible: no node has 2 devices: node a has 1");
  request.node.clear();
  CHECK(place(f.submit(request)) == "rejected: a node is only a wish, but none is named: name it in node");
}
