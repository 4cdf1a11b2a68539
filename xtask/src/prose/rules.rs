//! Openings without an actor, and other words for an ACK.

use regex::Regex;

/// The patterns of the rules.
pub(super) struct Rules {
    sentence: Regex,
    relative: Regex,
    acknowledge: Regex,
}

impl Rules {
    pub(super) fn new() -> Result<Rules, String> {
        let regex = |text: &str| Regex::new(text).map_err(|e| e.to_string());
        Ok(Rules {
            sentence: regex(r"[.!?:;](?:\*\*|\))?\s+")?,
            relative: regex(r"^[\s*>|-]*(?:\d+\.\s+)?(?:\*\*)?(?:What|Who|Whoever|Whatever|Whose|Why|How)\b[^?]*$")?,
            acknowledge: regex(
                r"(?i)\b(?:an?|the|no|one|its|each|these|of|for|last|selective) acknowledges?\b|\backnowledges (?:are|wait|leave|have|come|that)\b|\backnowledge timeouts?\b|\b(?:positive|our|lone|plain) acknowledges?\b",
            )?,
        })
    }

    /// The sentences of a paragraph that break a rule: where each begins, the rule, its text.
    pub(super) fn broken_by<'a>(&'a self, paragraph: &'a str) -> impl Iterator<Item = (usize, &'static str, &'a str)> {
        let mut starts: Vec<usize> = vec![0];
        starts.extend(self.sentence.find_iter(paragraph).map(|end| end.end()));
        let ends: Vec<usize> = starts[1..].iter().copied().chain([paragraph.len()]).collect();
        starts.into_iter().zip(ends).filter_map(|(start, end)| {
            let sentence = paragraph[start..end].trim();
            self.problem(sentence).map(|problem| (start, problem, sentence))
        })
    }

    fn problem(&self, sentence: &str) -> Option<&'static str> {
        if self.relative.is_match(sentence) {
            return Some("no actor");
        }
        self.acknowledge.is_match(sentence).then_some("not called an ACK")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(paragraph: &str) -> Vec<String> {
        Rules::new().unwrap().broken_by(paragraph).map(|(_, _, sentence)| sentence.into()).collect()
    }

    #[test]
    fn free_relatives_are_found_and_questions_are_not() {
        assert_eq!(broken("What is sent. The peer answers."), ["What is sent."]);
        assert_eq!(broken("It ends. Whoever waits wakes up"), ["Whoever waits wakes up"]);
        assert_eq!(broken("Why it failed."), ["Why it failed."]);
        assert_eq!(broken("- **Who** drives it."), ["- **Who** drives it."]);
        assert!(broken("What arrives, packet by packet: is it one, and for whom?").len() == 1);
        assert!(broken("Why did it die? What did the peer send?").is_empty());
        assert!(broken("It tells what it knows, and who asked.").is_empty());
    }

    #[test]
    fn an_ack_is_an_ack() {
        assert_eq!(broken("The acknowledge leaves later."), ["The acknowledge leaves later."]);
        assert_eq!(broken("Acknowledges wait for company."), ["Acknowledges wait for company."]);
        assert!(broken("The peer acknowledges each packet.").is_empty());
    }
}
