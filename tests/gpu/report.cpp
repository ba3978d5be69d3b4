// The table and the JSON.
#include <fmt/core.h>
#include <gpu/report.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace gpuactors::gpu {

namespace {

const char* name_of(Verdict verdict) {
  switch (verdict) {
  case Verdict::pass:
    return "pass";
  case Verdict::fail:
    return "FAIL";
  case Verdict::skip:
    return "skip";
  case Verdict::open:
    return "open";
  case Verdict::info:
    break;
  }
  return "info";
}

Verdict verdict_of(const std::string& name) {
  for (const auto verdict : {Verdict::pass, Verdict::info, Verdict::skip, Verdict::open})
    if (name == name_of(verdict))
      return verdict;
  return Verdict::fail;
}

} // namespace

void Report::add(Row row) {
  fmt::print("{:<20} {:<5} {}{}\n", row.name, name_of(row.verdict), row.text,
             row.target.empty() ? "" : fmt::format("  [{}]", row.target));
  std::fflush(stdout);
  row.from = measurement_.empty() ? row.name : measurement_;
  row.uuid = about_.value("uuid", "");
  row.revision = about_.value("revision", "");
  std::erase_if(rows_, [&row](const Row& other) { return other.name == row.name && other.from == row.from; });
  rows_.push_back(std::move(row));
  write();
}

void Report::begin(const std::string& measurement) {
  measurement_ = measurement;
  std::erase_if(rows_, [&](const Row& row) { return row.from == measurement; });
}

void Report::write() {
  if (file_.empty())
    return;
  // Under another name first: whoever reads it sees all of a table.
  const auto unfinished = file_ + ".part";
  std::ofstream out{unfinished};
  // The last line of a program may be no text.
  out << to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  written_ = out.good() && std::rename(unfinished.c_str(), file_.c_str()) == 0;
}

std::optional<Report> Report::read(const std::string& file) {
  std::ifstream in{file};
  if (file.empty() || !in)
    return Report{true, file};
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains("about") || !json.contains("rows"))
    return std::nullopt;
  try {
    const auto& about = json.at("about");
    Report report{!about.value("smoke", false), file};
    report.about_ = about;
    for (const auto& row : json.at("rows"))
      report.rows_.push_back({row.at("name"), verdict_of(row.at("verdict").get<std::string>()), row.at("text"),
                              row.at("target"), row.at("values"), row.at("from"), row.value("uuid", ""),
                              row.value("revision", "")});
    return report;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void Report::judge(std::string name, bool met, std::string text, std::string target, nlohmann::json values) {
  const auto verdict = !judging_ ? Verdict::info : met ? Verdict::pass : Verdict::fail;
  add({std::move(name), verdict, std::move(text), std::move(target), std::move(values)});
}

void Report::state(std::string name, std::string text, nlohmann::json values) {
  add({std::move(name), Verdict::info, std::move(text), {}, std::move(values)});
}

void Report::skip(std::string name, std::string why) {
  add({std::move(name), Verdict::skip, std::move(why), {}, nlohmann::json::object()});
}

void Report::leave_open(std::string name, std::string why) {
  add({std::move(name), Verdict::open, std::move(why), {}, nlohmann::json::object()});
}

void Report::fail(std::string name, std::string why) {
  add({std::move(name), Verdict::fail, std::move(why), {}, nlohmann::json::object()});
}

std::set<std::string> Report::settled() const {
  std::set<std::string> names;
  for (const auto& row : rows_)
    names.insert(row.from);
  for (const auto& row : rows_)
    if (row.verdict == Verdict::open || !is_of_this(row))
      names.erase(row.from);
  return names;
}

bool Report::is_of_this(const Row& row) const {
  return row.uuid == about_.value("uuid", "") && row.revision == about_.value("revision", "");
}

int Report::count_others() const {
  return static_cast<int>(
      std::count_if(rows_.begin(), rows_.end(), [this](const Row& row) { return !is_of_this(row); }));
}

int Report::count(Verdict verdict) const {
  return static_cast<int>(
      std::count_if(rows_.begin(), rows_.end(), [verdict](const Row& row) { return row.verdict == verdict; }));
}

nlohmann::json Report::to_json() const {
  auto rows = nlohmann::json::array();
  for (const auto& row : rows_)
    rows.push_back({{"name", row.name},
                    {"verdict", row.verdict == Verdict::fail ? "fail" : name_of(row.verdict)},
                    {"text", row.text},
                    {"target", row.target},
                    {"values", row.values},
                    {"from", row.from},
                    {"uuid", row.uuid},
                    {"revision", row.revision}});
  return {{"about", about_}, {"rows", rows}};
}

} // namespace gpuactors::gpu
