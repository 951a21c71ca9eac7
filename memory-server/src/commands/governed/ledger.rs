//! `rebuild` and `verify`.

use clap::Args;
use memory::Access;
use memory::governed::{Anchor, Ledger};

use super::{SpaceArgs, open};
use crate::terminal::{Context, Exit, Failure, Out, counted};

pub(crate) async fn rebuild(context: &Context, args: SpaceArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (_opened, space) = open(context, &args, Access::Existing).await?;
    let rebuilt = Ledger::new(&space).rebuild().await?;
    out.tell(&rebuilt, |out| {
        out.line(format!(
            "{} from {}; {}",
            counted(rebuilt.rows, "row"),
            counted(rebuilt.events, "event"),
            if rebuilt.agrees() {
                "the tables were so already"
            } else {
                "the tables were different, and are so now"
            }
        ))
    })?;
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The end of the ledger as an earlier `verify` printed it and you kept it elsewhere: SEQ:HASH
    #[arg(long, value_name = "SEQ:HASH", value_parser = anchor)]
    anchor: Option<Anchor>,
    #[command(flatten)]
    space: SpaceArgs,
}

fn anchor(text: &str) -> Result<Anchor, String> {
    let malformed = || "an anchor has the form SEQ:HASH, as `verify` prints it".to_owned();
    let (seq, hash) = text.split_once(':').ok_or_else(malformed)?;
    let seq = seq.parse().map_err(|_| malformed())?;
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(malformed());
    }
    Ok(Anchor { seq, hash: hash.to_owned() })
}

pub(crate) async fn verify(context: &Context, args: VerifyArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (_opened, space) = open(context, &args.space, Access::Read).await?;
    let verified = Ledger::new(&space).verify(args.anchor.as_ref()).await?;
    out.tell(&verified, |out| {
        out.line(format!(
            "{} verified, the words of {} erased",
            counted(verified.events, "event"),
            verified.erased
        ))?;
        out.line(format!("keep this elsewhere: {}:{}", verified.anchor.seq, verified.anchor.hash))
    })?;
    Ok(Exit::Ok)
}
