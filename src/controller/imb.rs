//! A job of IMB patterns, table by table.

use crate::plan::imb::{Imb, Table};
use crate::plan::job::Round;
use crate::record::{
    ImbRecord, LineRecord, Outcome, RankLine, RankRecord, TableRecord, Trouble, TroubleKind,
};
use crate::stats::imb as figures;
use crate::wire::message::{RankWord, ToNode};

use super::events::RunEvent;
use super::run_state::RunState;
use super::sessions::Halt;

impl RunState<'_> {
    /// Measures the tables after those that were taken over. Keeps the measured ones even if a later one fails.
    pub(super) fn imb(&mut self, imb: &Imb, taken_over: &[TableRecord]) -> Result<(), Halt> {
        let ranks = imb.ranks.count(self.hosts.len());
        let mut record = ImbRecord {
            ranks: self.rank_records(&imb.ranks),
            ..ImbRecord::default()
        };
        let mut wrong = None;
        let mut outcome = Ok(());
        let tables = imb.tables(ranks);
        let of = tables.len();
        for (number, table) in tables.into_iter().enumerate() {
            self.observer.see(RunEvent::Table {
                imb,
                table: &table,
                number: number + 1,
                of,
            });
            if let Some(known) = taken_over.get(number) {
                let table = &table;
                for line in &known.lines {
                    self.observer.see(RunEvent::Line { imb, table, line });
                }
                record.tables.push(known.clone());
            } else {
                let started_ms = self.now_ms();
                let mut lines = Vec::new();
                outcome = self.table(imb, &table, (&mut lines, &mut record.ranks), &mut wrong);
                record.tables.push(TableRecord {
                    table,
                    started_ms,
                    lines,
                });
                if outcome.is_err() {
                    break;
                }
            }
            if let Some(table) = record.tables.last() {
                self.observer.see(RunEvent::Tabled(table));
            }
        }
        record.complete = outcome.is_ok();
        let wrong = wrong.map(|(rank, what): (usize, String)| Trouble {
            node: self.hosts[record.ranks[rank].node].node.clone(),
            who: format!("rank {rank}"),
            ..Trouble::own(TroubleKind::Invalid, what)
        });
        self.outcome = Outcome::Imb(record);
        // Wrong data ends no table: it becomes a failure only here, after the measurements.
        if let Some(wrong) = wrong {
            self.sessions.log.note(wrong.into());
            outcome = outcome.and(Err(Halt::Noted));
        }
        outcome
    }

    fn table(
        &mut self,
        imb: &Imb,
        table: &Table,
        (lines, ranks): (&mut Vec<LineRecord>, &mut [RankRecord]),
        wrong: &mut Option<(usize, String)>,
    ) -> Result<(), Halt> {
        let round = Box::new(Round::Table(table.clone()));
        self.sessions.send_all(&ToNode::Round(round));
        let members = table.groups.concat();
        let mut told = Told::new(table);
        let observer = &mut *self.observer;
        let limit_ms = self.plan.deadlines.volume_ms;
        self.sessions.await_ranks(&imb.ranks, limit_ms, |rank, word| {
            match word {
                RankWord::Ready | RankWord::Times(_) => {}
                RankWord::Line(line) => {
                    if let (None, Some(text)) = (&*wrong, &line.wrong) {
                        *wrong = Some((rank, text.clone()));
                    }
                    let place = members.iter().position(|member| *member == rank);
                    let whole = place.and_then(|place| told.take(table, place, *line));
                    let foreign = || {
                        format!("rank {rank} reported a line that is not its own in this table, or reported it twice")
                    };
                    for line in whole.ok_or_else(foreign)? {
                        let algorithm = imb.algorithm_for(table, line.bytes);
                        let line = LineRecord { algorithm, ..line };
                        observer.see(RunEvent::Line {
                            imb,
                            table,
                            line: &line,
                        });
                        lines.push(line);
                    }
                }
                RankWord::Done {
                    processor,
                    strangers,
                    ..
                } => {
                    (ranks[rank].processor, ranks[rank].strangers) = (processor, strangers);
                }
            }
            Ok(())
        })
    }
}

/// Reports of the ranks about lines that are not complete yet.
struct Told {
    /// Report of each rank for each line, group by group.
    lines: Vec<Vec<Option<RankLine>>>,
    next: usize,
}

impl Told {
    fn new(table: &Table) -> Self {
        let members = table.groups.concat().len();
        Self {
            lines: vec![vec![None; members]; table.lengths.len()],
            next: 0,
        }
    }

    /// Takes the report of a rank. Returns the lines that it completes, in order, or `None` if the table has no such line or the rank has
    /// reported it before.
    fn take(&mut self, table: &Table, place: usize, line: RankLine) -> Option<Vec<LineRecord>> {
        let slot = self.lines.get_mut(line.line)?.get_mut(place)?;
        if slot.is_some() {
            return None;
        }
        *slot = Some(line);
        let mut whole = Vec::new();
        while let Some(all) = self.lines.get(self.next) {
            let groups: Vec<&[Option<RankLine>]> = all.chunks(table.group_size().max(1)).collect();
            let Some(line) = figures::line(table, self.next, &groups) else {
                break;
            };
            whole.push(line);
            self.next += 1;
        }
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_tells_a_line_twice_or_one_that_is_not_there_is_noticed() {
        let table = crate::plan::imb::tests::imb().tables(2).remove(0);
        let line = |line| RankLine {
            line,
            repetitions: 1,
            seconds: 1.0,
            batch: 1,
            batches_s: Vec::new(),
            files: None,
            defect: None,
            wrong: None,
            left_out: None,
        };
        let mut told = Told::new(&table);
        let mut take = |place, line| told.take(&table, place, line).map(|lines| lines.len());
        assert_eq!(take(0, line(0)), Some(0));
        assert_eq!(take(0, line(0)), None);
        assert_eq!(take(0, line(table.lengths.len())), None);
        assert_eq!(take(1, line(0)), Some(1));
    }
}
