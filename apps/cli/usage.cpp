#include "usage.hpp"

#include <gpuactors/base/suggest.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <vector>

namespace gpuactors::cli {

namespace {

/// The innermost subcommand that the arguments name, and its name with those around it: "gpuactors certs issue".
struct Chosen {
  const CLI::App* parser;
  std::string name;
};

Chosen chosen_in(const CLI::App& program) {
  Chosen chosen{&program, program.get_name()};
  for (auto inner = program.get_subcommands(); !inner.empty(); inner = chosen.parser->get_subcommands())
    chosen = {inner.front(), chosen.name + " " + inner.front()->get_name()};
  return chosen;
}

/// What help shows of an option's value: "N=30", "sgd|adam=sgd".
std::string value_of(const CLI::Option& option) {
  auto kind = option.get_type_name();
  const auto checks = kind.find(':');
  if (const auto choices = kind.find('{', checks); checks != std::string::npos && choices != std::string::npos) {
    kind = kind.substr(choices + 1, kind.rfind('}') - choices - 1);
    std::replace(kind.begin(), kind.end(), ',', '|');
  } else if (checks != std::string::npos) {
    kind.resize(checks);
  }
  if (kind == "INT" || kind == "UINT")
    kind = "N";
  else if (kind == "FLOAT")
    kind = "F";
  if (!option.get_default_str().empty())
    kind += "=" + option.get_default_str();
  if (option.get_required())
    kind += " (required)";
  return kind;
}

/// Explains arguments that name no subcommand of `parser`; `extras` are the arguments that no parser took.
std::string explain_missing(const CLI::App& parser, const std::vector<std::string>& extras) {
  std::vector<std::string> names;
  for (const auto* inner : parser.get_subcommands([](const CLI::App* /*any*/) { return true; }))
    names.push_back(inner->get_name());
  const auto word = std::find_if(extras.begin(), extras.end(), [](const auto& text) { return !text.starts_with("-"); });
  if (word != extras.end())
    return fmt::format("there is no subcommand \"{}\"{}", *word, did_you_mean(*word, names));
  if (!extras.empty())
    return fmt::format("there is no option {} before a subcommand", extras.front());
  return fmt::format("a subcommand is needed: {}", fmt::join(names, ", "));
}

/// The options that `parser` knows, those of its groups too.
std::vector<std::string> known_to(const CLI::App& parser) {
  std::vector<std::string> known;
  for (const auto* option : parser.get_options())
    for (const auto& spelling : option->get_lnames())
      known.push_back("--" + spelling);
  for (const auto* group : parser.get_subcommands([](const CLI::App* inner) { return inner->get_name().empty(); }))
    for (auto& name : known_to(*group))
      known.push_back(std::move(name));
  return known;
}

/// Explains arguments that are left over when `parser` has taken its own.
std::string explain_extra(const CLI::App& parser, const std::vector<std::string>& extras) {
  if (extras.empty())
    return {};
  // An unknown option explains the words that follow it.
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with("-"); });
  if (option == extras.end())
    return fmt::format("too many arguments: \"{}\" is one more than it takes", extras.front());
  const auto name = option->substr(0, option->find('='));
  return fmt::format("there is no option {}{}", name, did_you_mean(name, known_to(parser)));
}

/// What an option expects, as a sentence ends with it: "a whole number is expected". Of a flag: that it takes no value.
std::string expectation_of(const CLI::App& parser, const std::string& name) {
  const auto* option = parser.get_option_no_throw(name);
  const auto all = option != nullptr ? option->get_type_name() : "";
  const auto kind = all.substr(0, all.find(':'));
  if (kind.empty())
    return "it takes no value";
  if (kind == "N" || kind == "INT" || kind == "UINT")
    return "a whole number is expected";
  if (kind == "F" || kind == "FLOAT")
    return "a number is expected";
  return kind + " is expected";
}

/// A number as people write it; the parser's own have six digits behind the point.
std::string plain_number(const std::string& text) {
  const auto number = parse_double(text);
  return number ? fmt::format("{}", *number) : text;
}

/// Says what the parser found where its own words do not tell what would be right. Words that are not known stay.
std::string in_our_words(const CLI::App& parser, const std::string& text) {
  // A long text would take the expressions more stack than a thread has.
  constexpr std::size_t longest = 4096;
  if (text.size() > longest)
    return text;
  static const std::regex many{R"((.+): At Most (\d+) required but received (\d+))"};
  static const std::regex missing{R"((.+): 1 required (.+) missing)"};
  static const std::regex outside{R"((.+): Value (.*) not in range \[?(\S+) (?:to|-) ([^\]\s]+)\]?)"};
  static const std::regex unreadable{R"(Could not convert: (\S+) = (.*))"};
  std::smatch parts;
  if (std::regex_match(text, parts, many))
    return fmt::format("{} is given {} times: at most {} is expected", parts.str(1), parts.str(3), parts.str(2));
  if (std::regex_match(text, parts, missing))
    return fmt::format("{} needs a value: {}", parts.str(1), parts.str(2));
  if (std::regex_match(text, parts, outside))
    return fmt::format("{} is \"{}\": {} to {} is expected", parts.str(1), parts.str(2), plain_number(parts.str(3)),
                       plain_number(parts.str(4)));
  if (std::regex_match(text, parts, unreadable))
    return fmt::format("{} is \"{}\": {}", parts.str(1), parts.str(2), expectation_of(parser, parts.str(1)));
  return text;
}

} // namespace

std::string one_line(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != '\n' && c != '\r')
      result += c;
    else if (!result.empty() && result.back() != ' ')
      result += ' ';
  result.erase(result.find_last_not_of(' ') + 1);
  return result;
}

void put_under(const std::string& heading, CLI::App& parser, std::size_t first) {
  const auto options = parser.get_options();
  for (std::size_t i = first; i < options.size(); ++i) {
    options[i]->group(heading);
    if (options[i]->get_type_size() != 0)
      options[i]->option_text(value_of(*options[i]));
  }
}

std::string chosen_name(const CLI::App& program) {
  return chosen_in(program).name;
}

std::string explain(const CLI::App& program, const CLI::ParseError& error) {
  const auto [parser, who] = chosen_in(program);
  const auto extras = program.remaining(true);
  std::string what;
  if (parser->get_require_subcommand_min() > 0)
    what = explain_missing(*parser, extras);
  else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    what = explain_extra(*parser, extras);
  if (what.empty())
    what = in_our_words(*parser, one_line(error.what()));
  what = one_line(what);
  if (!what.ends_with("?"))
    what += fmt::format("; see {} --help", who);
  return what;
}

} // namespace gpuactors::cli
