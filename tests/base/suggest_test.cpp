#include <gpuactors/base/suggest.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

TEST_CASE("a mistyped name finds the names it resembles, best first", "[base]") {
  const std::vector<std::string> known = {"matmul", "mat", "elementwise", "gram"};
  CHECK(nearest_names("matmull", known) == std::vector<std::string>{"matmul", "mat"});
  CHECK(nearest_names("grm", known) == std::vector<std::string>{"gram"});
  CHECK(did_you_mean("grm", known) == "; did you mean \"gram\"?");
  CHECK(did_you_mean("zzzzzz", known) == "; there is \"matmul\", \"mat\", \"elementwise\", \"gram\"");
  CHECK(did_you_mean("x", {}).empty());
}

TEST_CASE("a name that is longer than any resembles none, and takes no time") {
  const std::vector<std::string> known = {"matmul"};
  CHECK(nearest_names("matmul" + std::string(250, 'x'), known) == known);
  CHECK(nearest_names("matmul" + std::string(251, 'x'), known).empty());
  CHECK(did_you_mean(std::string(60'000'000, 'm'), known) == "; there is \"matmul\"");
}

TEST_CASE("two neighbours swapped are one slip") {
  CHECK(gpuactors::nearest_names("gpsu", {"cpus", "gpus"}) == std::vector<std::string>{"gpus"});
}
