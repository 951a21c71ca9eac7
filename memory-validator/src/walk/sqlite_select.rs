//! The walk over SQLite's queries and their parts.

use sqlite3_parser::ast::{
    As, CommonTableExpr, CompoundSelect, FromClause, Indexed, JoinConstraint, JoinedSelectTable, Limit,
    OneSelect, QualifiedName, ResultColumn, Select, SelectBody, SelectTable, Set, SortedColumn, Upsert,
    UpsertDo, UpsertIndex, Window, WindowDef, With,
};

use super::sqlite::{Walk, Walked};
use crate::refusals;
use crate::verdict::{Access, Refusal, Stage};

impl Walk<'_, '_> {
    pub(super) fn select(&mut self, select: &Select<'_>) -> Walked {
        let Select { with, body, order_by, limit } = select;
        let depth = self.with(with.as_ref())?;
        let SelectBody { select: first, compounds } = body;
        self.one(first)?;
        for CompoundSelect { operator: _, select } in compounds.iter().flatten() {
            self.one(select)?;
        }
        self.sorted(order_by.unwrap_or_default())?;
        self.limit(*limit)?;
        self.forget(depth);
        Ok(())
    }

    /// Walks common table expressions and makes their names visible; returns the number visible before.
    pub(super) fn with(&mut self, with: Option<&With<'_>>) -> Result<usize, Refusal> {
        let depth = self.named.len();
        let Some(With { recursive: _, ctes }) = with else { return Ok(depth) };
        for CommonTableExpr { tbl_name, .. } in *ctes {
            let name = self.bare(tbl_name.0)?;
            *self.times.entry(name.clone()).or_default() += 1;
            self.named.push(name);
        }
        for CommonTableExpr { tbl_name: _, columns, materialized: _, select } in *ctes {
            self.columns(columns.unwrap_or_default())?;
            self.select(select)?;
        }
        Ok(depth)
    }

    /// Hides the common table expressions beyond a number.
    pub(super) fn forget(&mut self, depth: usize) {
        while self.named.len() > depth {
            let Some(name) = self.named.pop() else { break };
            if let Some(times) = self.times.get_mut(&name) {
                *times -= 1;
                if *times == 0 {
                    self.times.remove(&name);
                }
            }
        }
    }

    pub(super) fn one(&mut self, select: &OneSelect<'_>) -> Walked {
        match select {
            OneSelect::Select {
                distinctness: _,
                columns,
                from,
                where_clause,
                group_by,
                having,
                window_clause,
            } => {
                self.results(columns)?;
                self.from(from.as_ref())?;
                self.maybe(*where_clause)?;
                self.exprs(group_by.unwrap_or_default())?;
                self.maybe(*having)?;
                for WindowDef { name, window } in window_clause.unwrap_or_default() {
                    self.plain(name)?;
                    self.window(window)?;
                }
                Ok(())
            }
            OneSelect::Values(rows) => rows.iter().try_for_each(|row| self.exprs(row)),
        }
    }

    pub(super) fn from(&mut self, from: Option<&FromClause<'_>>) -> Walked {
        let Some(from) = from else { return Ok(()) };
        if let Some(table) = from.select {
            self.item(table)?;
        }
        for JoinedSelectTable { operator: _, table, constraint } in from.joins.iter().flatten() {
            self.item(table)?;
            match constraint {
                Some(JoinConstraint::On(expr)) => self.expr(expr)?,
                Some(JoinConstraint::Using(columns)) => self.names(Some(columns))?,
                None => {}
            }
        }
        Ok(())
    }

    pub(super) fn item(&mut self, table: &SelectTable<'_>) -> Walked {
        match table {
            SelectTable::Table(name, alias, indexed) => {
                self.target(name, Access::Read)?;
                self.indexed(indexed.as_ref())?;
                self.alias(alias.as_ref())
            }
            SelectTable::TableCall(name, args, alias) => {
                self.table_call(name)?;
                self.exprs(args.unwrap_or_default())?;
                self.alias(alias.as_ref())
            }
            SelectTable::Select(select, alias) => {
                self.select(select)?;
                self.alias(alias.as_ref())
            }
            SelectTable::Sub(from, alias) => {
                self.from(Some(from))?;
                self.alias(alias.as_ref())
            }
        }
    }

    /// A table function.
    pub(super) fn table_call(&mut self, function: &QualifiedName<'_>) -> Walked {
        let QualifiedName { db_name, name, alias } = function;
        self.schema(db_name.as_ref(), Access::Read)?;
        self.plains(alias.as_ref())?;
        let name = self.bare(name.0)?;
        if !self.policy.table_functions.contains(&name) {
            return Err(refusals::table_function(Stage::Walk, self.find(&name, true), &name));
        }
        Ok(())
    }

    pub(super) fn window(&mut self, window: &Window<'_>) -> Walked {
        let Window { base, partition_by, order_by, frame_clause } = window;
        self.plains(base.as_ref())?;
        self.exprs(partition_by.unwrap_or_default())?;
        self.sorted(order_by.unwrap_or_default())?;
        self.frame(frame_clause.as_ref())
    }

    pub(super) fn results(&mut self, columns: &[ResultColumn<'_>]) -> Walked {
        for column in columns {
            match column {
                ResultColumn::Expr(expr, alias) => {
                    self.expr(expr)?;
                    self.alias(alias.as_ref())?;
                }
                ResultColumn::Star => {}
                ResultColumn::TableStar(name) => self.plain(name)?,
            }
        }
        Ok(())
    }

    pub(super) fn upsert(&mut self, upsert: Option<&Upsert<'_>>) -> Walked {
        let mut next = upsert;
        while let Some(Upsert { index, do_clause, next: following }) = next {
            if let Some(UpsertIndex { targets, where_clause }) = index {
                self.sorted(targets)?;
                self.maybe(where_clause.as_ref())?;
            }
            match do_clause {
                UpsertDo::Set { sets, where_clause } => {
                    self.sets(sets)?;
                    self.maybe(where_clause.as_ref())?;
                }
                UpsertDo::Nothing => {}
            }
            next = *following;
        }
        Ok(())
    }

    pub(super) fn sets(&mut self, sets: &[Set<'_>]) -> Walked {
        for Set { col_names, expr } in sets {
            self.names(Some(col_names))?;
            self.expr(expr)?;
        }
        Ok(())
    }

    pub(super) fn sorted(&mut self, columns: &[SortedColumn<'_>]) -> Walked {
        columns.iter().try_for_each(|SortedColumn { expr, order: _, nulls: _ }| self.expr(expr))
    }

    pub(super) fn limit(&mut self, limit: Option<&Limit<'_>>) -> Walked {
        let Some(Limit { expr, offset }) = limit else { return Ok(()) };
        self.expr(expr)?;
        self.maybe(offset.as_ref())
    }

    pub(super) fn indexed(&self, indexed: Option<&Indexed<'_>>) -> Walked {
        match indexed {
            Some(Indexed::IndexedBy(name)) => self.plain(name),
            Some(Indexed::NotIndexed) | None => Ok(()),
        }
    }

    pub(super) fn alias(&self, alias: Option<&As<'_>>) -> Walked {
        match alias {
            Some(As::As(name) | As::Elided(name)) => self.plain(name),
            None => Ok(()),
        }
    }
}
