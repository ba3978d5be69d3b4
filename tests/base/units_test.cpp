#include <gpuactors/base/units.hpp>

#include <support/catch.hpp>

#include <clocale>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

using namespace gpuactors;

namespace {

/// Gives the program a locale whose numbers have a comma, if the machine has one, for as long as this lives.
class CommaLocale {
public:
  CommaLocale() {
    for (const auto* language : {"de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "pt_BR", "ru_RU"})
      for (const auto* encoding : {"", ".UTF-8", ".utf8"})
        if (!is_there_ && std::setlocale(LC_ALL, (std::string{language} + encoding).c_str()) != nullptr)
          is_there_ = std::string_view{std::localeconv()->decimal_point} == ",";
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;
  ~CommaLocale() {
    std::setlocale(LC_ALL, "C");
  }

  [[nodiscard]] bool is_there() const noexcept {
    return is_there_;
  }

private:
  bool is_there_ = false;
};

} // namespace

TEST_CASE("a double within 1e-9 of a multiple of 1/10000 is that multiple", "[base]") {
  for (std::int64_t units = 0; units <= 20'000; ++units) {
    const auto exact = static_cast<double>(units) / 10'000.0;
    REQUIRE(Share::from_double(exact, "gpus")->units() == units);
    REQUIRE(Share::from_double(exact + 9e-10, "gpus")->units() == units);
  }
  CHECK(*Share::from_double(0.57, "gpus") + *Share::from_double(0.43, "gpus") == Share::whole(1));
}

TEST_CASE("shares that are not exact decimals are refused with what is allowed", "[base]") {
  for (double bad : {0.00005, 0.12345678, -0.1, std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity(), 1e300}) {
    const auto share = Share::from_double(bad, "gpus");
    REQUIRE_FALSE(share.has_value());
    CHECK(share.error().code() == Errc::invalid_argument);
    CHECK(share.error().message().find("gpus is") != std::string::npos);
  }
}

TEST_CASE("devices are asked for as a fraction below one or as whole ones", "[base]") {
  CHECK(parse_gpus(0.0)->units() == 0);
  CHECK(parse_gpus(0.9999)->units() == 9'999);
  CHECK(parse_gpus(1.0)->units() == 10'000);
  CHECK(parse_gpus(8.0)->units() == 80'000);
  const auto refused = parse_gpus(1.5);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message()
        == "gpus is 1.5: ask for a fraction below 1 or for a whole number of devices (1 or 2)");
}

TEST_CASE("shares print without trailing zeros", "[base]") {
  CHECK(to_string(Share{2'500}) == "0.25");
  CHECK(to_string(Share{1}) == "0.0001");
  CHECK(to_string(Share::whole(2)) == "2");
  CHECK(to_string(Share{}) == "0");
  CHECK(to_string(Share{-3'000}) == "-0.3");
}

TEST_CASE("memory follows share without overflow, and the least share covers the memory", "[base]") {
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  CHECK(memory_for_share(huge, Share::whole(1)) == huge);
  CHECK(memory_for_share(80, Share{5'000}) == 40);
  CHECK(share_for_memory(16'000, 6'000) == Share{3'750});
  CHECK(share_for_memory(16'000, 6'001) == Share{3'751});
  CHECK(share_for_memory(100, 101) > Share::whole(1));
  CHECK(share_for_memory(100, 0) == Share{});
  for (std::uint64_t wanted : {1ULL, 7ULL, 4'095ULL, 999'999'999ULL}) {
    const auto least = share_for_memory(1'000'000'007, wanted);
    CHECK(memory_for_share(1'000'000'007, least) >= wanted);
    CHECK(memory_for_share(1'000'000'007, least - Share{1}) < wanted);
  }
}

TEST_CASE("bytes are read as people write them", "[base]") {
  CHECK(*parse_bytes("1073741824") == 1'073'741'824);
  CHECK(*parse_bytes("1GiB") == 1'073'741'824);
  CHECK(*parse_bytes("1.5 GiB") == 1'610'612'736);
  CHECK(*parse_bytes("6GB") == 6'000'000'000);
  for (auto bad : {"", "GiB", "1.5", "-1", "1 XB", "1.2.3MiB", "99999999999999999999", "9999999TiB"})
    CHECK_FALSE(parse_bytes(bad).has_value());
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1'610'612'736) == "1.5 GiB");
}

TEST_CASE("a number is read whole, and refused with anything beside it", "[base]") {
  CHECK(parse_double("0.5") == 0.5);
  CHECK(parse_double("-2") == -2);
  CHECK(parse_double(".25") == 0.25);
  CHECK(parse_double("1e3") == 1000);
  CHECK(std::isinf(parse_double("inf").value_or(0)));
  CHECK(std::isnan(parse_double("nan").value_or(0)));
  for (const auto* bad : {"", " 1", "1 ", "1,5", "1.2.3", "often", "1e", "1e999"})
    CHECK_FALSE(parse_double(bad).has_value());
}

TEST_CASE("numbers have a point whatever the program's locale", "[base]") {
  const CommaLocale locale;
  if (!locale.is_there())
    return;
  CHECK(parse_double("0.5") == 0.5);
  CHECK_FALSE(parse_double("0,5").has_value());
  CHECK(*parse_bytes("1.5GiB") == 1'610'612'736);
  CHECK_FALSE(parse_bytes("1,5GiB").has_value());
}
