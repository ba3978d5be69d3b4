// The pure parts of training: splits, sweeps, curves.
#include "lessons.hpp"

#include <apps/train/curve.hpp>
#include <apps/train/options.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace train::test {

TEST_CASE("a split keeps the part of every label, and its seed decides it", "[train]") {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 1000; ++i)
    labels.push_back(i % 10 == 0 ? 2 : i % 3 == 0 ? 1 : 0);
  const auto split = stratified_split(labels, 0.2, 1);
  CHECK(split.test.size() == 200);
  CHECK(split.train.size() == 800);
  std::set<std::int32_t> all(split.train.begin(), split.train.end());
  all.insert(split.test.begin(), split.test.end());
  CHECK(all.size() == 1000);
  std::map<std::int32_t, int> kept;
  for (const auto row : split.test)
    ++kept[labels[static_cast<std::size_t>(row)]];
  CHECK(kept[2] == 20);
  CHECK(kept[0] + kept[1] == 180);
  CHECK(std::abs(kept[1] - 60) <= 1);
  CHECK(stratified_split(labels, 0.2, 1).test == split.test);
  CHECK(stratified_split(labels, 0.2, 2).test != split.test);
  CHECK(stratified_split(labels, 0, 1).test.empty());
  // The same on every machine and in every version: checkpoints go on with it.
  CHECK(std::vector(split.test.begin(), split.test.begin() + 5) == std::vector<std::int32_t>{0, 5, 18, 26, 32});
}

TEST_CASE("sweeps are read, or refused in words", "[train]") {
  const auto sweep = must(parse_sweep("rate=0.1,0.01,1e-3"));
  CHECK(sweep.name == "rate");
  CHECK(sweep.values == std::vector<double>{0.1, 0.01, 0.001});
  Plan plan;
  apply(must(parse_sweep("batch=16,32")), 32, plan);
  CHECK(plan.batch() == 32);
  CHECK(says(parse_sweep("speed=1").error(), "--sweep takes rate, momentum, weight-decay, batch, seed and values"));
  CHECK(says(parse_sweep("rate").error(), "not \"rate\""));
  CHECK(says(parse_sweep("rate=").error(), "\"\" is no number for rate"));
  CHECK(says(parse_sweep("rate=1,,2").error(), "\"\" is no number for rate"));
  CHECK(says(parse_sweep("rate=1,inf").error(), "\"inf\" is no number for rate"));
  CHECK(says(parse_sweep("batch=1.5").error(), "\"1.5\" is no whole number for batch"));
}

TEST_CASE("a curve is a table and a picture", "[train]") {
  const Curve curve{{3, 1, 2}, {4, 2, 1}, {6, 2, 0.25}};
  CHECK(to_csv(curve) == "step,epoch,loss\n3,1,2\n4,2,1\n6,2,0.25\n");
  const auto picture = to_svg(curve, "a < b & c");
  CHECK(picture.find("a &lt; b &amp; c") != std::string::npos);
  CHECK(picture.find("class=\"steps\" points=\"") != std::string::npos);
  CHECK(picture.find("nan") == std::string::npos);
  Curve many;
  for (std::uint64_t step = 1; step <= 100'000; ++step)
    many.push_back({step, (step + 9) / 10, 0.5});
  for (const auto& odd : std::vector<Curve>{{}, {{1, 1, 0}}, {{7, 3, INFINITY}, {8, 3, 1}}, many})
    CHECK(to_svg(odd, "odd").size() < 400'000);
}

TEST_CASE("both lines of a picture stay in its frame, and have no more corners than it has room for", "[train]") {
  // Two epochs in one corner are high, and none of the corners of the steps lies within them.
  Curve high;
  for (std::uint64_t step = 1; step <= 100'000; ++step)
    high.push_back({step, (step + 49) / 50, step > 200 && step <= 300 ? 100.0 : 1.0});
  Curve short_epochs;
  for (std::uint64_t step = 1; step <= 100'000; ++step)
    short_epochs.push_back({step, (step + 9) / 10, 1});
  const Curve beginning{high.begin(), high.begin() + 8'000};
  for (const auto& drawn : {high, short_epochs, beginning}) {
    const auto picture = to_svg(drawn, "high");
    for (const auto* kind : {"steps", "epochs"}) {
      const auto points = "class=\"" + std::string{kind} + "\" points=\"";
      const auto begin = picture.find(points);
      REQUIRE(begin != std::string::npos);
      const auto end = picture.find('"', begin + points.size());
      std::istringstream corners{picture.substr(begin + points.size(), end - begin - points.size())};
      std::size_t count = 0;
      double x = 0;
      double y = 0;
      for (char comma = 0; corners >> x >> comma >> y; ++count)
        CHECK((y >= 44 && y <= 374 && x >= 70 && x <= 780)); // the frame
      CHECK(count > 100);
      CHECK(count <= 1600);
    }
  }
}

TEST_CASE("a curve is read as it was written, and gone on with", "[train]") {
  const Curve curve{{3, 1, 2}, {4, 2, 0.1}, {6, 2, INFINITY}};
  auto parsed = must(parse_csv_curve(to_csv(curve), "net.csv"));
  CHECK(parsed.curve == curve);
  CHECK_FALSE(parsed.torn);
  CHECK(must(parse_csv_curve("step,epoch,loss\n", "net.csv")).curve.empty());
  CHECK(join_curves(curve, 4, {{5, 2, 7}}) == Curve{{3, 1, 2}, {4, 2, 0.1}, {5, 2, 7}});
  CHECK(join_curves(curve, 6, {}) == curve);
  CHECK(join_curves({}, 6, {{7, 1, 1}}) == Curve{{7, 1, 1}});

  // Cut anywhere, it is what was whole of it.
  const auto text = to_csv(curve);
  for (std::size_t length = 0; length < text.size(); ++length) {
    parsed = must(parse_csv_curve(text.substr(0, length), "net.csv"));
    CHECK(parsed.curve.size() < curve.size());
    CHECK(std::equal(parsed.curve.begin(), parsed.curve.end(), curve.begin()));
    if (length > text.find('\n'))
      CHECK(parsed.torn == (text[length - 1] != '\n'));
  }
}

TEST_CASE("a file that is no curve, or one of another training, is refused in words", "[train]") {
  const auto refused = [](const std::string& text, std::string_view words) {
    const auto parsed = parse_csv_curve(text, "net.csv");
    REQUIRE_FALSE(parsed);
    CHECK(says(parsed.error(), std::string{words}));
  };
  refused("1,2,0\n", "net.csv is no loss curve: it does not begin with \"step,epoch,loss\"");
  for (const auto* line : {"3,1", "3,1,x", "3,1,2,4", "x,1,2", "0,1,2", "3,0,2", "3,1,nan", "-3,1,2", "", "2,1,1"})
    refused(std::string{"step,epoch,loss\n2,1,1\n"} + line + "\n",
            std::string{"net.csv: line 3 is no next step, its epoch and its loss: \""} + line + "\"");

  const Curve curve{{3, 1, 2}, {4, 2, 0.5}};
  CHECK(check_same_training(curve, 4, 0.5, "net.csv"));
  CHECK(check_same_training(curve, 4, std::nullopt, "net.csv"));
  CHECK(check_same_training(curve, 5, 0.25, "net.csv")); // nobody knows
  const auto other = check_same_training(curve, 3, 0.25, "net.csv");
  REQUIRE_FALSE(other);
  CHECK(says(other.error(), "net.csv is the curve of another training: the loss of step 3 is 2 there, and 0.25"));
}

TEST_CASE("inputs are scaled by a power of two", "[train]") {
  CHECK(input_scale_for(std::vector<float>{0, 16, -3}) == 0.0625);
  CHECK(input_scale_for(std::vector<float>{17}) == 0.03125);
  CHECK(input_scale_for(std::vector<float>{-0.3F}) == 2);
  CHECK(input_scale_for(std::vector<float>{0}) == 1);
  // Also the smallest numbers and the largest ones have a scale that a network can use.
  CHECK(input_scale_for(std::vector<float>{std::numeric_limits<float>::denorm_min()}) == std::exp2(126));
  CHECK(input_scale_for(std::vector<float>{std::numeric_limits<float>::max()}) == std::exp2(-128));
  for (const double scale : {std::exp2(126), std::exp2(-128)})
    CHECK(nn::check(nn::NetworkSpec{{1, 2}, nn::Activation::relu, gpuactors::DType::f32, scale, 1}));
}

} // namespace train::test
