//! The walk over SQLite's expressions. It keeps pending nodes in a list, so that a long chain of operators uses no
//! stack.

use sqlite3_parser::ast::{
    Distinctness, Expr, FrameBound, FrameClause, FunctionCallOrder, FunctionTail, Id, LikeOperator, Literal,
    Operator, Over, UnaryOperator,
};

use super::sqlite::{Walk, Walked};
use crate::gate::names::sqlite_name as name;
use crate::refusals;
use crate::verdict::{Access, Refusal, Stage};

impl Walk<'_, '_> {
    pub(super) fn maybe(&mut self, expr: Option<&Expr<'_>>) -> Walked {
        expr.map_or(Ok(()), |expr| self.expr(expr))
    }

    pub(super) fn exprs(&mut self, exprs: &[Expr<'_>]) -> Walked {
        exprs.iter().try_for_each(|expr| self.expr(expr))
    }

    pub(super) fn frame(&mut self, frame: Option<&FrameClause<'_>>) -> Walked {
        let Some(FrameClause { mode: _, start, end, exclude: _ }) = frame else { return Ok(()) };
        self.bound(start)?;
        end.as_ref().map_or(Ok(()), |end| self.bound(end))
    }

    fn bound(&mut self, bound: &FrameBound<'_>) -> Walked {
        match bound {
            FrameBound::CurrentRow | FrameBound::UnboundedFollowing | FrameBound::UnboundedPreceding => {
                Ok(())
            }
            FrameBound::Following(expr) | FrameBound::Preceding(expr) => self.expr(expr),
        }
    }

    pub(super) fn expr(&mut self, root: &Expr<'_>) -> Walked {
        let mut todo: Vec<&Expr<'_>> = Vec::new();
        let mut next = Some(root);
        while let Some(expr) = next {
            match expr {
                Expr::Literal(literal) => self.literal(literal),
                Expr::Id(Id(name)) => self.seen(name)?,
                Expr::Name(name) => self.plain(name)?,
                Expr::Qualified(table, column) => {
                    self.plain(table)?;
                    self.plain(column)?;
                }
                Expr::DoublyQualified(schema, table, column) => {
                    self.schema(Some(schema), Access::Read)?;
                    self.plain(table)?;
                    self.plain(column)?;
                }
                Expr::Variable(text) => self.variable(text)?,
                Expr::Binary(left, operator, right) => {
                    self.operator(*operator)?;
                    todo.push(right);
                    todo.push(left);
                }
                Expr::Unary(
                    UnaryOperator::BitwiseNot
                    | UnaryOperator::Negative
                    | UnaryOperator::Not
                    | UnaryOperator::Positive,
                    inner,
                )
                | Expr::IsNull(inner)
                | Expr::NotNull(inner) => todo.push(inner),
                Expr::Collate(inner, collation) => {
                    self.seen(collation)?;
                    todo.push(inner);
                }
                Expr::Cast { expr: inner, type_name } => {
                    self.column_type(type_name.as_ref())?;
                    todo.push(inner);
                }
                Expr::Parenthesized(inner) => todo.extend(inner.iter().rev()),
                Expr::Between { lhs, not: _, start, end } => todo.extend([*end, *start, *lhs]),
                Expr::Case { base, when_then_pairs, else_expr } => {
                    todo.extend(*else_expr);
                    todo.extend(when_then_pairs.iter().rev().flat_map(|(when, then)| [then, when]));
                    todo.extend(*base);
                }
                Expr::Like { lhs, not: _, op, rhs, escape } => {
                    self.like(*op)?;
                    todo.extend(*escape);
                    todo.extend([*rhs, *lhs]);
                }
                Expr::InList { lhs, not: _, rhs } => {
                    todo.extend(rhs.unwrap_or_default().iter().rev());
                    todo.push(lhs);
                }
                Expr::InSelect { lhs, not: _, rhs } => {
                    self.select(rhs)?;
                    todo.push(lhs);
                }
                Expr::InTable { lhs, not: _, rhs, args } => {
                    match args {
                        Some(args) => {
                            self.table_call(rhs)?;
                            todo.extend(args.iter().rev());
                        }
                        None => self.target(rhs, Access::Read)?,
                    }
                    todo.push(lhs);
                }
                Expr::Exists(select) | Expr::Subquery(select) => self.select(select)?,
                Expr::FunctionCall { name, distinctness, args, order_by, filter_over } => {
                    match distinctness {
                        Some(Distinctness::Distinct | Distinctness::All) | None => {}
                    }
                    self.function(name)?;
                    match order_by {
                        Some(FunctionCallOrder::SortList(columns)) => self.sorted(columns)?,
                        None => {}
                    }
                    self.tail(filter_over.as_ref())?;
                    todo.extend(args.unwrap_or_default().iter().rev());
                }
                Expr::FunctionCallStar { name, filter_over } => {
                    self.function(name)?;
                    self.tail(filter_over.as_ref())?;
                }
                Expr::Raise(resolution, message) => {
                    self.conflict(Some(*resolution))?;
                    todo.extend(*message);
                }
            }
            next = todo.pop();
        }
        Ok(())
    }

    fn tail(&mut self, tail: Option<&FunctionTail<'_>>) -> Walked {
        let Some(FunctionTail { filter_clause, over_clause }) = tail else { return Ok(()) };
        self.maybe(*filter_clause)?;
        match over_clause {
            Some(Over::Window(window)) => self.window(window),
            Some(Over::Name(name)) => self.plain(name),
            None => Ok(()),
        }
    }

    fn function(&self, function: &Id<'_>) -> Walked {
        self.seen(function.0)?;
        let name = name(function.0);
        if self.policy.functions.contains(name.as_ref()) {
            return Ok(());
        }
        Err(refusals::function(Stage::Walk, self.find(&name, true), &name))
    }

    /// `LIKE` and the like call functions with the same names.
    fn like(&self, operator: LikeOperator) -> Walked {
        self.called(match operator {
            LikeOperator::Glob => "glob",
            LikeOperator::Like => "like",
            LikeOperator::Match => "match",
            LikeOperator::Regexp => "regexp",
        })
    }

    /// `->` and `->>` call functions with the same names.
    fn operator(&self, operator: Operator) -> Walked {
        match operator {
            Operator::ArrowRight => self.called("->"),
            Operator::ArrowRightShift => self.called("->>"),
            Operator::Add
            | Operator::And
            | Operator::BitwiseAnd
            | Operator::BitwiseOr
            | Operator::Concat
            | Operator::Equals
            | Operator::Divide
            | Operator::Greater
            | Operator::GreaterEquals
            | Operator::Is
            | Operator::IsNot
            | Operator::LeftShift
            | Operator::Less
            | Operator::LessEquals
            | Operator::Modulus
            | Operator::Multiply
            | Operator::NotEquals
            | Operator::Or
            | Operator::RightShift
            | Operator::Subtract => Ok(()),
        }
    }

    fn called(&self, name: &str) -> Walked {
        if self.policy.functions.contains(name) {
            return Ok(());
        }
        Err(refusals::function(Stage::Walk, self.find(name, false), name))
    }

    fn literal(&self, literal: &Literal<'_>) {
        match literal {
            Literal::Numeric(_)
            | Literal::String(_)
            | Literal::Blob(_)
            | Literal::Keyword(_)
            | Literal::Null
            | Literal::CurrentDate
            | Literal::CurrentTime
            | Literal::CurrentTimestamp => {}
        }
    }

    /// The grammar strips `?`: the rest is a number or empty.
    fn variable(&self, text: &str) -> Walked {
        let digits = text.strip_prefix('$').unwrap_or(text);
        let numbered =
            digits.bytes().all(|byte| byte.is_ascii_digit()) && !(digits.is_empty() && text != digits);
        if numbered {
            return Ok(());
        }
        let at = self.lexed.sql.find(text).unwrap_or(0);
        let position = crate::verdict::Position::of(self.lexed.sql, at);
        Err(Refusal::new(Stage::Walk, "parameter", position, refusals::short(text))
            .because("named arguments are not supported")
            .instead("write `?`, `?1` or `$1`"))
    }
}
