#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/metric_name.hpp>

#include <support/catch.hpp>

#include <string>

using namespace gpuactors;

TEST_CASE("the names of metrics are those of Prometheus", "[base]") {
  for (const auto* name : {"loss", "_", "a1", "TRAIN_loss_2", "gpuactors", "agpuactors_x"})
    CHECK(check_metric_name(name));
  for (const auto* name : {"", "1a", "a b", "a-b", "a.b", "a:b", "a{x=\"1\"}", "a\n", "l\xC3\xA4nge"}) {
    const auto checked = check_metric_name(name);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code() == Errc::invalid_argument);
    CHECK(checked.error().message()
          == "\"" + std::string{name}
                 + "\" is no name for a metric: a letter or _ is expected, then letters, digits "
                   "and _");
  }
  CHECK_FALSE(check_metric_name(std::string_view{"a\0b", 3}));
}

TEST_CASE("a metric has a name of bounded length, and none of the cluster's own", "[base]") {
  CHECK(check_metric_name(std::string(limits::metric_name_length, 'a')));
  CHECK(check_metric_name(std::string(limits::metric_name_length + 1, 'a')).error().message()
        == "the name of a metric has 129 characters: at most 128 are allowed");
  CHECK(check_metric_name("gpuactors_up").error().message()
        == "metric gpuactors_up: names that begin with gpuactors_ are the cluster's own");
}
