// The tour's checks must be able to fail: rows, errors, and the float64 references by numbers worked out by hand.
#include "reference.hpp"
#include "report.hpp"

#include <support/catch.hpp>

#include <cmath>
#include <limits>

using Catch::Matchers::WithinAbs;

namespace tour {

TEST_CASE("a row is ok only if it was checked and every check held", "[tour]") {
  Row row{"T0", "test"};
  SECTION("without a check") {
    row.close();
    CHECK_FALSE(row.ok());
  }
  SECTION("with one that holds") {
    row.check(true, "never said");
    row.close();
    CHECK(row.ok());
  }
  SECTION("with one that does not") {
    row.check(true, "never said");
    row.check(false, "{} was expected, {} came", 1, 2);
    row.close();
    CHECK_FALSE(row.ok());
    CHECK(row.failures() == std::vector<std::string>{"1 was expected, 2 came"});
  }
  SECTION("with an error that is too large, or none at all") {
    CHECK(row.check_error(1e-7, 1e-5));
    CHECK_FALSE(row.check_error(1e-4, 1e-5));
    CHECK_FALSE(row.check_error(std::numeric_limits<double>::quiet_NaN(), 1e-5));
    CHECK_FALSE(row.ok());
  }
}

TEST_CASE("the worst error of a row is shown", "[tour]") {
  Row row{"T0", "test"};
  row.check_error(1e-7, 1e-5);
  row.check_error(1e-6, 1e-5);
  row.check_error(1e-8, 1e-5);
  CHECK(row.error() == 1e-6);
}

TEST_CASE("failures appear in the table and in JSON", "[tour]") {
  Rows rows;
  rows.emplace_back("T0", "test").check(false, "one was expected, \"two\" came");
  rows.back().close();
  CHECK(to_table(rows).find("T0 test FAILED: one was expected") != std::string::npos);
  CHECK(to_json(rows).find(R"("failures":["one was expected, \"two\" came"])") != std::string::npos);
  CHECK(to_json(rows).find(R"("ok":false)") != std::string::npos);
}

TEST_CASE("relative error", "[tour]") {
  const std::vector<double> expected{3, 4};
  CHECK_THAT(relative_error(std::vector<float>{3, 4.5F}, expected), WithinAbs(0.1, 1e-12));
  CHECK(std::isinf(relative_error(std::vector<float>{3}, expected)));
  CHECK(std::isnan(relative_error(std::vector<float>{0}, std::vector<double>{0})));
}

TEST_CASE("sampled rows hold the first and the last", "[tour]") {
  CHECK(sampled_rows(3) == std::vector<std::size_t>{0, 1, 2});
  const auto rows = sampled_rows(1000);
  CHECK(rows.size() == 12);
  CHECK(rows.front() == 0);
  CHECK(rows.back() == 999);
}

TEST_CASE("reference products", "[tour]") {
  const std::vector<float> a{1, 2, 3, 4};
  const std::vector<float> b{5, 6, 7, 8};
  CHECK(reference_product(a, b, 2, {0, 1}) == std::vector<double>{19, 22, 43, 50});
  CHECK(reference_product(a, b, 2, {1}) == std::vector<double>{43, 50});
  CHECK(reference_product(a, b, 2, {0, 1}, true) == std::vector<double>{17, 23, 39, 53});
  CHECK(take_rows(a, 2, {1}) == std::vector<float>{3, 4});
}

TEST_CASE("reference training", "[tour]") {
  // One point x = 2, y = 5, from weight 1 and bias 0: the loss is (2 - 5)^2, its slopes are -12 and -6.
  TrainingRun run;
  run.rows = run.inputs = run.outputs = 1;
  run.x = {2};
  run.target = {5};
  run.parameters = {1, 0};
  run.rate = 0.01;
  run.steps = 2;
  SECTION("SGD: weight 1.12, bias 0.06") {
    const auto losses = reference_losses(run);
    REQUIRE(losses.size() == 2);
    CHECK_THAT(losses[0], WithinAbs(9, 1e-12));
    CHECK_THAT(losses[1], WithinAbs(2.7 * 2.7, 1e-12));
  }
  SECTION("Adam: the first step is the rate along the sign of each slope") {
    run.adam = true;
    const auto losses = reference_losses(run);
    REQUIRE(losses.size() == 2);
    CHECK_THAT(losses[1], WithinAbs(2.97 * 2.97, 1e-6));
  }
}

} // namespace tour
