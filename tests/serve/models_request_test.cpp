// Requests that do not fit a model are refused with what it takes.
#include "models_fixture.hpp"

#include <apps/serve/models/request_check.hpp>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

TEST_CASE("a request that fits says how many rows it has", "[serve]") {
  auto request = request_for("digits", some_rows(3, 1));
  CHECK(must(check_request(request, digits_facts(), 4)) == 3);
  request.outputs = {"y"};
  request.timeout = 1ms;
  CHECK(must(check_request(request, digits_facts(), 3)) == 3);
}

TEST_CASE("a request that does not fit is refused with what the model takes", "[serve]") {
  const auto refused = [](const InferRequest& request, const std::string& words) {
    const auto rows = check_request(request, digits_facts(), 4);
    CHECK(code_of(rows) == Errc::invalid_argument);
    CHECK(says(rows, words));
  };
  const auto good = request_for("digits", some_rows(2, 1));
  auto request = good;
  request.inputs.clear();
  refused(request, "model digits has one input, \"x\", and the request has 0");
  request = good;
  request.inputs.push_back(request.inputs.front());
  refused(request, "and the request has 2");
  request = good;
  request.inputs[0].name = "input";
  refused(request, "has no input \"input\": its input is \"x\"");
  request = good;
  request.inputs[0].type = DataType::int64;
  refused(request, "takes \"x\" as FP32, not as INT64");
  request = good;
  request.inputs[0].shape = {16};
  refused(request, "in the shape [rows,8], not [16]");
  request.inputs[0].shape = {2, 4};
  refused(request, "not [2,4]");
  request.inputs[0].shape = {0, 8};
  refused(request, "takes 1 to 4 rows in a request, not 0");
  request.inputs[0].shape = {-1, 8};
  refused(request, "not -1");
  request.inputs[0].shape = {5, 8};
  refused(request, "not 5");
  request.inputs[0].shape = {3, 8};
  refused(request, "takes 96 bytes for 3 rows, and the request has 64");
  request = good;
  request.outputs = {"y", "z"};
  refused(request, "has no output \"z\": its output is \"y\"");
  request = good;
  request.timeout = 0ms;
  refused(request, "within a timeout of 0 or less");
}
